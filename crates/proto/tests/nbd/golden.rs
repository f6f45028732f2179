//! Bytes as the specification lays them out.

use crate::nbd::negotiation::{greeted, option, request};
use crate::nbd::pair::exports;
use weft_proto::nbd::ServerConfig;
use weft_proto::nbd::code::{CommandCode, OptionCode};

#[test]
fn replies_in_all_forms() {
    let cases: [(Option<OptionCode>, &str, &str); 3] = [
        (None, "67446698 00000000 1122334455667788", "67446698 00000016 1122334455667788"),
        (
            Some(OptionCode::STRUCTURED_REPLY),
            "668e33ef 0001 0001 1122334455667788 00000208 0000000000000400",
            "668e33ef 0001 8001 1122334455667788 00000006 00000016 0000",
        ),
        (
            Some(OptionCode::EXTENDED_HEADERS),
            "6e8a278c 0001 0001 1122334455667788 0000000000000400 0000000000000208 0000000000000400",
            "6e8a278c 0001 8001 1122334455667788 0000000000000401 0000000000000006 00000016 0000",
        ),
    ];
    for (form, success, failure) in cases {
        let mut pair = greeted(ServerConfig::new(exports()));
        form.into_iter().for_each(|form| pair.target.receive(&option(form, &[])));
        pair.target.receive(&option(OptionCode::GO, &[0; 6]));
        pair.target.transmit();
        let extended = form == Some(OptionCode::EXTENDED_HEADERS);
        let mut answer = |offset| {
            pair.target.receive(&request(
                extended,
                CommandCode::READ,
                0x1122_3344_5566_7788,
                offset,
                512,
            ));
            pair.target.transmit()
        };
        let expected = [bytes(success), vec![0; 512]].concat();
        assert!(answer(1024) == expected, "{form:?}");
        assert_eq!(answer(1025), bytes(failure), "{form:?}");
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|two| u8::from_str_radix(core::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}
