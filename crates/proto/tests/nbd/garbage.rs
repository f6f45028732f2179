//! Whatever comes: no panic, no endless loop, no claim beyond what was granted.

use crate::nbd::connection_end::{ConnectionEnd, Go};
use crate::nbd::pair::Pair;
use crate::nbd::transfers::ready;
use proptest::prelude::*;
use weft_proto::nbd::code::{CommandCode, CommandFlags};
use weft_proto::nbd::{ClientConfig, Form, NbdClient};

fn noise() -> impl Strategy<Value = Vec<u8>> {
    let magic = prop::sample::select(vec![
        b"NBDMAGICIHAVEOPT\0\x03".to_vec(),
        b"IHAVEOPT\0\0\0\x07".to_vec(),
        0x0003_e889_0455_65a9u64.to_be_bytes().to_vec(),
        0x2560_9513u32.to_be_bytes().to_vec(),
        0x6744_6698u32.to_be_bytes().to_vec(),
        0x668e_33efu32.to_be_bytes().to_vec(),
        0x6e8a_278cu32.to_be_bytes().to_vec(),
    ]);
    let piece = prop_oneof![
        magic,
        prop::collection::vec(any::<u8>(), 0..40),
        (0usize..40).prop_map(|n| vec![0; n])
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(weft_testing::properties!())]

    #[test]
    fn a_server_survives(bytes in noise(), started: bool) {
        let mut pair = if started { ready(Form::Structured) } else { Pair::plain("") };
        pair.target.receive(&bytes);
        pair.target.transmit();
        prop_assert!(pair.target.end.engine.outstanding() <= 256);
    }

    #[test]
    fn a_client_survives(bytes in noise(), form in 0usize..4) {
        if form == 3 {
            let mut end = ConnectionEnd::new(NbdClient::new(ClientConfig::new("")));
            end.receive(&bytes, &mut |_, _| Go::On);
            end.transmit();
        } else {
            let mut pair = ready([Form::Simple, Form::Structured, Form::Extended][form]);
            pair.target.hold = true;
            for n in 0..4 {
                pair.submit(CommandCode::READ, CommandFlags::default(), n * 4096, 4096, vec![0; 4096]);
            }
            pair.run();
            pair.feed_client(&bytes);
            prop_assert!(pair.responses.len() <= 4);
        }
    }
}
