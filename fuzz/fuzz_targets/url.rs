//! Texts that people type: URLs, sizes and durations. What was understood is written down so that
//! it means the same.

use weft_block::grammar::{self, List};
use weft_block::units::{format_size, parse_duration, parse_size};
use weft_endpoint::url::nbd::NbdUrl;
use weft_endpoint::url::{HostPort, NVME_TCP_PORT, NvmeUrl};

pub fn run(text: &str) {
    if let Ok(address) = HostPort::parse(text, NVME_TCP_PORT) {
        assert_eq!(HostPort::parse(&address.to_string(), 1).ok(), Some(address));
    }
    let names = ["nvme+tcp://", "nvme+rdma://", "nvme+tcp://h/nqn.2014-08.org.example:"];
    for url in names.map(|before| format!("{before}{text}")).into_iter().chain([text.to_owned()]) {
        if let Ok(parsed) = NvmeUrl::parse(&url) {
            assert_eq!(NvmeUrl::parse(&parsed.to_string()).ok(), Some(parsed));
        }
    }
    if let Ok(parsed) = NbdUrl::parse(text) {
        assert_eq!(NbdUrl::parse(&parsed.to_string()).ok(), Some(parsed));
    }
    if let Ok(List { head, sources }) = grammar::list(text, &["stripe"]) {
        let parts: Vec<_> =
            (!head.is_empty()).then_some(head).into_iter().chain(sources.iter().copied()).collect();
        assert_eq!(
            parts.join(","),
            text.strip_prefix(',').filter(|_| head.is_empty()).unwrap_or(text)
        );
        for source in sources {
            assert_eq!(grammar::list(source, &["stripe"]).unwrap().sources, [source]);
        }
    }
    if let Ok(bytes) = parse_size(text) {
        assert_eq!(parse_size(&format_size(bytes)).ok(), Some(bytes));
    }
    let _ = parse_duration(text);
}
