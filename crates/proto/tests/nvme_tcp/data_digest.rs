//! Data digests that are wrong.

use super::pair::{count, host, pattern, target};
use crate::support::pair::Pair;
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::TcpTargetConfig;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::PduType;

/// Damages one byte of the data of the only data PDU of `pdu_type` in `stream`.
fn damage(stream: &mut [u8], pdu_type: PduType) {
    let mut at = 0;
    while at < stream.len() {
        let plen = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
        if stream[at] == pdu_type.0 && usize::from(stream[at + 3]) > 0 {
            let data = at + usize::from(stream[at + 3]);
            stream[data + 5] ^= 0x10;
        }
        at += plen;
    }
}

#[test]
fn a_wrong_data_digest_fails_its_command_alone() {
    for success_flag in [false, true] {
        let mut pair = Pair::new(host(Digests::BOTH), target());
        pair.disk.end.engine.set_success_flag(success_flag);
        pair.run();
        let tag = pair.read(0, 4096);
        pair.host.flush();
        pair.disk.end.stage(&pair.host.take_wire());
        pair.disk.run();
        let mut answer = pair.disk.end.take_wire();
        damage(&mut answer, PduType::C2H_DATA);
        pair.host.stage(&answer);
        pair.run();
        let outcome = pair.outcome(tag);
        assert!(outcome.damaged && outcome.cqe.status.is_success());
        let again = pair.read(0, 4096);
        pair.run();
        assert_eq!(pair.outcome(again).data, &pair.disk.store[..4096]);
    }
}

#[test]
fn a_wrong_data_digest_of_a_write_fails_it_when_all_data_is_through() {
    for (len, pdu_type, r2ts) in [(4096, PduType::CAPSULE_CMD, 0), (40_000, PduType::H2C_DATA, 2)] {
        let target = TcpTargetConfig {
            max_r2t_bytes: 16384,
            max_h2c_data_bytes: 16384,
            r2t_outstanding: 2,
            ..target()
        };
        let mut pair = Pair::new(host(Digests::BOTH), target);
        pair.run();
        pair.disk.end.eager = true;
        let tag = pair.write(0, &pattern(len, 3));
        let mut answers = Vec::new();
        for round in 0..3 {
            pair.host.flush();
            let mut request = pair.host.take_wire();
            if (round == 0) == (pdu_type == PduType::CAPSULE_CMD) {
                damage(&mut request, pdu_type);
            }
            pair.disk.end.stage(&request);
            pair.disk.run();
            let answer = pair.disk.end.take_wire();
            pair.host.stage(&answer);
            pair.run_host();
            answers.extend(answer);
        }
        assert_eq!(
            count(&answers, PduType::R2T),
            r2ts,
            "no more is asked for once data is damaged"
        );
        assert_eq!(pair.outcome(tag).cqe.status, Status::TRANSIENT_TRANSPORT_ERROR);
        assert!(!pair.outcome(tag).damaged);
        let again = pair.write(0, &pattern(len, 3));
        pair.run();
        assert!(pair.outcome(again).cqe.status.is_success());
        assert!(pair.disk.store.starts_with(&pattern(len, 3)));
    }
}
