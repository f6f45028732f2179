//! Records that a gateway reads from the cluster: the group's record, the beats of other gateways,
//! the reservations of a namespace, and a server's own file of them. Whatever is read is written
//! again and read as the same, within the bounds of what is stored.

use uuid::Uuid;
use weft_endpoint::reservations::{decode, encode};
use weft_group::limits::{GATEWAYS_MAX, RECORD_BYTES_MAX, RESERVATION_RECORD_BYTES_MAX};
use weft_group::reservations::ReservationRecord as Reserved;
use weft_group::{Beat, FORMAT, GroupRecord};

const NAMESPACE: Uuid = Uuid::from_bytes([7; 16]);
const LIFE: u64 = 5;

pub fn run(bytes: &[u8]) {
    if let Ok(record) = GroupRecord::parse(bytes) {
        assert!(
            record.gateways.len() <= usize::from(GATEWAYS_MAX)
                && (1..=FORMAT).contains(&record.format())
        );
        let text = record.text();
        // What was left out of the longest is written.
        assert!(text.len() > RECORD_BYTES_MAX || GroupRecord::parse(&text).as_ref() == Ok(&record));
    }
    let _ = serde_json::from_slice::<Beat>(bytes);
    if let Ok(record) = Reserved::decode(bytes, NAMESPACE, LIFE) {
        for version in 1..=FORMAT {
            let text = record.encode(NAMESPACE, LIFE, version);
            if text.len() <= RESERVATION_RECORD_BYTES_MAX {
                let again = Reserved::decode(&text, NAMESPACE, LIFE).expect("it was written here");
                assert!(version < FORMAT || again == record);
            }
        }
    }
    if let Ok(state) =
        str::from_utf8(bytes).map_err(|e| e.to_string()).and_then(|text| decode(text, NAMESPACE))
    {
        assert_eq!(decode(&encode(&state, NAMESPACE), NAMESPACE), Ok(state));
    }
}
