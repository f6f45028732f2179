//! `weft changed-ns-list-log`, `supported-log-pages`.

use super::hex;
use super::log::{self, LogPageRequest};
use super::target::{OutputOptions, VerbTarget, letters};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use weft_endpoint::Control;
use weft_proto::nvme::log_page::{LogPageId, SupportedLogPages};
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme::wire::Field;

/// Namespaces of the list.
const NAMESPACES_MAX: usize = 1024;

/// Options of `weft changed-ns-list-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("ob")))]
#[command(after_help = "\
A controller keeps what has changed since its host read the log page, and each connection has a
controller of its own with most targets.

Example:
  weft changed-ns-list-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk")]
pub struct ChangedNsListLogArgs {
    #[command(flatten)]
    format: OutputOptions,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft supported-log-pages`.
#[derive(Args, Debug)]
#[command(mut_args(letters("ob")))]
#[command(after_help = "\
With -v, the output includes what a controller supports of each log page.

Example:
  weft supported-log-pages nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk")]
pub struct SupportedLogPagesArgs {
    #[command(flatten)]
    format: OutputOptions,
    #[command(flatten)]
    target: VerbTarget,
}

/// Prints Changed Namespace List.
pub fn changed_ns_list_log(args: &ChangedNsListLogArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let request = LogPageRequest {
        retain: true,
        ..LogPageRequest::of(LogPageId::CHANGED_NAMESPACES, NAMESPACES_MAX * 4)
    };
    let page = log::read(&connected, &request)?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&page)?,
        NvmeOutputFormat::Json => {
            if let Some(json) = changed_json(&connected.name, &changed(&page)) {
                print_json(&json)?;
            }
        }
        NvmeOutputFormat::Normal => changed_text(&mut out, &changed(&page))?,
    }
    Ok(())
}

/// The namespaces in the list; one of [`Nsid::ALL`] alone stands for more than the list holds.
fn changed(page: &[u8]) -> Vec<Nsid> {
    page.chunks_exact(4).map(Nsid::read).take_while(|nsid| *nsid != Nsid(0)).collect()
}

/// Nothing where there are more than the list holds, as with nvme-cli.
fn changed_json(name: &str, list: &[Nsid]) -> Option<Value> {
    let line = |(n, nsid): (usize, &Nsid)| {
        (format!("[{:4}]", n + 1), Value::from(hex::alternate(nsid.0.into())))
    };
    let lines: serde_json::Map<_, _> = list.iter().enumerate().map(line).collect();
    (list.first() != Some(&Nsid::ALL))
        .then(|| json!({"Changed Namespace List Log": name, name: lines}))
}

fn changed_text(out: &mut impl Write, list: &[Nsid]) -> std::io::Result<()> {
    if list.first() == Some(&Nsid::ALL) {
        return writeln!(out, "more than {NAMESPACES_MAX} ns changed");
    }
    let mut lines = list.iter().enumerate();
    lines.try_for_each(|(n, nsid)| writeln!(out, "[{n:4}]:{}", hex::alternate(nsid.0.into())))
}

/// Prints Supported Log Pages.
pub fn supported_log_pages(
    args: &SupportedLogPagesArgs,
    verbose: bool,
    control: &Control,
) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let page = log::read(
        &connected,
        &LogPageRequest::of(LogPageId::SUPPORTED_PAGES, SupportedLogPages::BYTES),
    )?;
    let log = SupportedLogPages::decode(&page).map_err(|e| connected.malformed(&e))?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&page)?,
        NvmeOutputFormat::Json => print_json(&supported_json(&log))?,
        NvmeOutputFormat::Normal => {
            writeln!(out, "Support Log Pages Details for {}:", connected.name)?;
            supported_text(&mut out, &log, verbose)?;
        }
    }
    Ok(())
}

/// The log pages that there are, with what is said of them.
fn supported(log: &SupportedLogPages) -> impl Iterator<Item = (LogPageId, u32)> {
    let pages = (0..=u8::MAX).map(LogPageId).zip(log.pages);
    pages.filter(|(_, bits)| bits & SupportedLogPages::SUPPORTED != 0)
}

fn supported_json(log: &SupportedLogPages) -> Value {
    // With the space at the end of the name, as in nvme-cli's source.
    let page = |(id, bits): (LogPageId, u32)| {
        Value::Object([(format!("lid_0x{:x} ", id.0), json!(bits))].into_iter().collect())
    };
    json!({"supported_logs": supported(log).map(page).collect::<Vec<_>>()})
}

fn supported_text(
    out: &mut impl Write,
    log: &SupportedLogPages,
    verbose: bool,
) -> std::io::Result<()> {
    let said =
        |bits: u32, bit: u32| if bits >> bit & 1 == 0 { "not supported" } else { "supported" };
    for (id, bits) in supported(log) {
        writeln!(out, "LID 0x{:x} ({}), supports 0x{bits:x}", id.0, name(id))?;
        if verbose {
            writeln!(out, "  LSUPP is supported\n  IOS is {}", said(bits, 1))?;
            if id == LogPageId::PERSISTENT_EVENT {
                writeln!(
                    out,
                    "  Establish Context and Read 512 Bytes of Header is {}",
                    said(bits, 16)
                )?;
            }
        } else {
            writeln!(out)?;
        }
    }
    Ok(())
}

fn name(id: LogPageId) -> &'static str {
    match id {
        LogPageId::FIRMWARE_SLOT => "Firmware Slot Information",
        id => id.text().unwrap_or("Unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_namespaces() {
        let mut page = vec![0; 4096];
        page[0] = 3;
        page[4] = 26;
        let list = changed(&page);
        let json = changed_json("here", &list).unwrap();
        assert_eq!(json["here"], json!({"[   1]": "0x3", "[   2]": "0x1a"}));
        let text = |list: &[Nsid]| {
            let mut out = Vec::new();
            changed_text(&mut out, list).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&list), "[   0]:0x3\n[   1]:0x1a\n");
        page[..4].fill(0xff);
        page[4] = 0;
        let many = changed(&page);
        assert_eq!(
            (text(&many), changed_json("here", &many)),
            ("more than 1024 ns changed\n".into(), None)
        );
    }

    #[test]
    fn supported_pages() {
        let mut page = vec![0; 1024];
        page[12] = 1;
        page[16] = 3;
        page[20] = 2;
        let log = SupportedLogPages::decode(&page).unwrap();
        let expected = json!({"supported_logs": [{"lid_0x3 ": 1}, {"lid_0x4 ": 3}]});
        assert_eq!(supported_json(&log), expected);
        let text = |verbose| {
            let mut out = Vec::new();
            supported_text(&mut out, &log, verbose).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(false),
            "LID 0x3 (Firmware Slot Information), supports 0x1\n\nLID 0x4 (Changed Namespace List), supports 0x3\n\n"
        );
        assert!(text(true).contains("  LSUPP is supported\n  IOS is supported\n"));
    }
}
