//! Texts, keys, binary values and names of iSCSI, from arbitrary bytes: what is read is written
//! again alike, and negotiation keeps to the ranges of the standard.

use weft_proto::iscsi::chap;
use weft_proto::iscsi::text::{
    Key, Name, OfferedParameters, Parameters, Writer, binary, negotiate, pairs, settle,
};

pub fn run(bytes: &[u8]) {
    let Ok(read) = pairs(bytes).collect::<Result<Vec<_>, _>>() else { return };
    let mut writer = Writer::default();
    let (ours, mut there, mut here) =
        (OfferedParameters::default(), Parameters::default(), Parameters::default());
    for &(name, value) in &read {
        writer.put(name, value);
        if let Some(key) = Key::named(name) {
            // Whatever the peer says, an answer to it is one that this end would take itself.
            if let Some(answer) = negotiate(key, value, &ours, &mut there).text() {
                let _ = settle(key, &answer, &ours, &mut here);
            }
            let _ = settle(key, value, &ours, &mut here);
        }
        if let Some(decoded) = binary::decode(value, 64) {
            assert!(decoded.len() <= 64);
            assert_eq!(binary::decode(&binary::encode(&decoded), 64), Some(decoded));
        }
        let _ = (chap::identifier(value), chap::challenge(value), chap::Algorithm::choose(value));
        if let Ok(name) = Name::new(value) {
            assert_eq!(Name::new(name.as_str()), Ok(name));
        }
    }
    for parameters in [there, here] {
        assert!(
            (512..1 << 24).contains(&parameters.max_burst_bytes)
                && parameters.first_burst() <= parameters.max_burst_bytes
        );
        assert!(
            (512..1 << 24).contains(&parameters.max_send_bytes)
                && parameters.max_outstanding_r2t >= 1
        );
    }
    assert_eq!(pairs(writer.text()).collect::<Result<Vec<_>, _>>(), Ok(read));
}
