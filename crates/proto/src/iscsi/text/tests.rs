use super::*;
use crate::iscsi::digest::Digests;

fn all(text: &[u8]) -> Result<Vec<Pair<'_>>, TextError> {
    pairs(text).collect()
}

#[test]
fn pairs_are_read_and_written() {
    let mut writer = Writer::default();
    writer.put("SendTargets", "All");
    writer.number(Key::MaxBurstLength, 512);
    writer.boolean(Key::InitialR2T, true);
    assert_eq!(writer.text(), b"SendTargets=All\0MaxBurstLength=512\0InitialR2T=Yes\0");
    assert_eq!(
        all(writer.text()).unwrap(),
        [("SendTargets", "All"), ("MaxBurstLength", "512"), ("InitialR2T", "Yes")]
    );
    assert_eq!(all(b"A=\0\0B=a=b\0\0\0").unwrap(), [("A", ""), ("B", "a=b")]);
    assert_eq!(all(b"").unwrap(), []);
    assert_eq!(all(b"A=b\0C=d").unwrap(), [("A", "b"), ("C", "d")]);
}

#[test]
fn texts_that_break_the_form() {
    assert_eq!(all(b"A\0"), Err(TextError::NotAPair));
    assert_eq!(all(b"=b\0"), Err(TextError::NotAPair));
    assert_eq!(all(b"A b=c\0"), Err(TextError::KeyName));
    assert_eq!(all(&[&[b'k'; 64][..], b"=v\0"].concat()), Err(TextError::KeyName));
    assert_eq!(all(b"A=\xff\0"), Err(TextError::Value));
    assert_eq!(all(b"A=\n\0"), Err(TextError::Value));
}

#[test]
fn what_is_no_text_is_made_readable() {
    let text = readable(b"InitiatorAlias=M\xfcller\0X-own=a\tb\0A=\xc3\xa9\0");
    let expected = [("InitiatorAlias", "M\u{fffd}ller"), ("X-own", "a\u{fffd}b"), ("A", "\u{e9}")];
    assert_eq!(all(&text).unwrap(), expected);
}

#[test]
fn a_text_in_pieces_is_bounded() {
    let mut collector = Collector::default();
    collector.push(b"A=").unwrap();
    collector.push(b"b\0").unwrap();
    assert_eq!(all(collector.text()).unwrap(), [("A", "b")]);
    assert_eq!(collector.push(&vec![b'x'; TEXT_BYTES_MAX]), Err(TextError::TooLong));
}

#[test]
fn numbers_have_two_forms() {
    assert_eq!(
        [number("0"), number("0x1f"), number("0XFF"), number("65535")],
        [Some(0), Some(31), Some(255), Some(65_535)]
    );
    assert_eq!(
        [
            number(""),
            number("0x"),
            number("-1"),
            number("1k"),
            number("+1"),
            number("99999999999999999999")
        ],
        [None; 6]
    );
}

#[test]
fn every_key_is_found_by_its_name() {
    for key in Key::ALL {
        assert_eq!(Key::named(key.name()), Some(*key));
    }
    assert_eq!(Key::named("X-com.example"), None);
}

/// A responder's answer to `offer`, and what holds then.
fn answer(key: Key, offer: &str, ours: OfferedParameters) -> (Option<String>, Parameters) {
    let mut parameters = Parameters::default();
    let answer = negotiate(key, offer, &ours, &mut parameters);
    (answer.text(), parameters)
}

#[test]
fn numbers_meet_at_the_least_or_the_greatest() {
    let ours = OfferedParameters {
        max_burst_bytes: 1 << 20,
        max_outstanding_r2t: 4,
        time2wait_s: 3,
        ..OfferedParameters::default()
    };
    assert_eq!(answer(Key::MaxBurstLength, "16776192", ours).0.as_deref(), Some("1048576"));
    assert_eq!(answer(Key::MaxBurstLength, "4096", ours).1.max_burst_bytes, 4096);
    assert_eq!(answer(Key::MaxBurstLength, "100", ours).0.as_deref(), Some(REJECT));
    assert_eq!(answer(Key::MaxOutstandingR2T, "0x2", ours).1.max_outstanding_r2t, 2);
    assert_eq!(answer(Key::DefaultTime2Wait, "2", ours).1.time2wait_s, 3);
    assert_eq!(answer(Key::ErrorRecoveryLevel, "2", ours).0.as_deref(), Some("0"));
    assert_eq!(answer(Key::MaxConnections, "8", ours).0.as_deref(), Some("1"));
}

#[test]
fn booleans_meet_by_and_and_or() {
    let ours = OfferedParameters {
        initial_r2t: false,
        immediate_data: true,
        ..OfferedParameters::default()
    };
    assert_eq!(answer(Key::InitialR2T, "No", ours).0.as_deref(), Some("No"));
    assert_eq!(answer(Key::InitialR2T, "Yes", ours).0.as_deref(), Some("Yes"));
    assert_eq!(answer(Key::ImmediateData, "No", ours).0.as_deref(), Some("No"));
    assert_eq!(answer(Key::ImmediateData, "maybe", ours).0.as_deref(), Some(REJECT));
    assert!(!answer(Key::ImmediateData, "No", ours).1.immediate_data);
}

#[test]
fn the_offerer_prefers() {
    let ours = OfferedParameters { digests: Digests::BOTH, ..OfferedParameters::default() };
    assert_eq!(answer(Key::HeaderDigest, "None,CRC32C", ours).0.as_deref(), Some("None"));
    assert!(answer(Key::HeaderDigest, "X-own,CRC32C,None", ours).1.digests.header);
    assert_eq!(answer(Key::DataDigest, "X-own", ours).0.as_deref(), Some(REJECT));
    let insists = OfferedParameters {
        digests: Digests::BOTH,
        require_digests: Digests::BOTH,
        ..OfferedParameters::default()
    };
    assert_eq!(answer(Key::DataDigest, "None", insists).0.as_deref(), Some(REJECT));
    assert_eq!(answer(Key::TaskReporting, "FastAbort,RFC3720", ours).0.as_deref(), Some("RFC3720"));
}

#[test]
fn declarations_and_markers() {
    let (said, parameters) =
        answer(Key::MaxRecvDataSegmentLength, "262144", OfferedParameters::default());
    assert_eq!((said, parameters.max_send_bytes, parameters.max_recv_bytes), (None, 262_144, 8192));
    assert_eq!(
        answer(Key::MaxRecvDataSegmentLength, "16777216", OfferedParameters::default())
            .0
            .as_deref(),
        Some(REJECT)
    );
    assert_eq!(
        answer(Key::InitiatorMarker, "Yes", OfferedParameters::default()).0.as_deref(),
        Some("No")
    );
    assert_eq!(
        answer(Key::TargetMarkerInterval, "1~2", OfferedParameters::default()).0.as_deref(),
        Some(REJECT)
    );
}

#[test]
fn both_ends_come_to_the_same() {
    let initiator = OfferedParameters {
        digests: Digests::BOTH,
        initial_r2t: false,
        max_recv_bytes: 1 << 18,
        first_burst_bytes: 1 << 24,
        max_burst_bytes: 1 << 22,
        ..OfferedParameters::default()
    };
    let target = OfferedParameters {
        digests: Digests { header: true, data: false },
        initial_r2t: false,
        max_outstanding_r2t: 8,
        ..OfferedParameters::default()
    };
    let (mut here, mut there, mut offers) =
        (Parameters::default(), Parameters::default(), Writer::default());
    initiator.write(false, &mut offers);
    for pair in pairs(offers.text()) {
        let (key, value) = pair.unwrap();
        let key = Key::named(key).unwrap();
        if let Some(answer) = negotiate(key, value, &target, &mut there).text() {
            settle(key, &answer, &initiator, &mut here).unwrap();
        }
    }
    assert_eq!(there.max_send_bytes, 1 << 18);
    there.max_send_bytes = 8192;
    assert_eq!(here, there);
    assert_eq!(here.first_burst(), 65_536);
}

#[test]
fn answers_are_checked_by_the_offerer() {
    let (ours, mut into) = (OfferedParameters::default(), Parameters::default());
    assert_eq!(
        settle(Key::HeaderDigest, "CRC32C", &ours, &mut into),
        Err(NegotiationError::Answer(Key::HeaderDigest))
    );
    assert_eq!(
        settle(Key::InitialR2T, REJECT, &ours, &mut into),
        Err(NegotiationError::Refused(Key::InitialR2T))
    );
    assert_eq!(
        settle(Key::MaxBurstLength, "1", &ours, &mut into),
        Err(NegotiationError::Value(Key::MaxBurstLength))
    );
    assert_eq!(settle(Key::TaskReporting, NOT_UNDERSTOOD, &ours, &mut into), Ok(()));
    // A target that answers with more than was offered gets no more than that.
    settle(Key::MaxBurstLength, "16776192", &ours, &mut into).unwrap();
    assert_eq!(into, Parameters::default());
}
