//! Targets that grant fewer digests than they were asked for: whoever asks for one relies on it.

use crate::hostile::fake::{Fake, Reply, ic_resp};
use crate::hostile::targets::patient;
use weft_block::ErrorKind;
use weft_endpoint::{ConnectOptions, open};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::IcResp;

#[test]
fn a_digest_that_is_not_granted_is_not_dropped() {
    let digests = |header, data| Digests { header, data };
    for (asked, granted, missing) in [
        (digests(true, false), Digests::NONE, "no header digest"),
        (digests(false, true), Digests::NONE, "no data digest"),
        (Digests::BOTH, digests(false, true), "no header digest"),
        (Digests::BOTH, digests(true, false), "no data digest"),
    ] {
        let fake =
            Fake::new(Some(IcResp { digests: granted, ..ic_resp() }.encode().to_vec()), |_, _| {
                Reply::Usual
            });
        let options =
            ConnectOptions { hdr_digest: asked.header, data_digest: asked.data, ..patient() };
        let error = open(&fake.url(), &options).err().expect("it does not open");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains(missing) && !text.contains('\n'), "{text}");
    }
}
