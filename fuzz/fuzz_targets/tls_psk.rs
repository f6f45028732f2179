//! Files of pre-shared keys, and the identities that hosts offer.

use weft_proto::nvme::auth::{InterchangeKey, Named, PskKeys};
use weft_proto::nvme::types::Nqn;

const KEYS: &str = "nqn.host NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:\n\
                    NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:\n";

pub fn run(bytes: &[u8]) {
    // What is found is what was asked for.
    let keys = PskKeys::parse(KEYS).unwrap();
    if let Some(found) = keys.find(bytes) {
        assert_eq!(found.text.as_bytes(), bytes);
        let named = Named::parse(bytes).unwrap();
        assert_eq!((named.hash, named.is_generated), (found.hash, false));
    }
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    if let Ok(key) = InterchangeKey::parse(text) {
        assert_eq!(InterchangeKey::parse(&key.text()).unwrap().text(), key.text());
    }
    if let Ok(keys) = PskKeys::parse(text) {
        let [host, subsystem] = ["nqn.host", "nqn.subsystem"].map(|name| Nqn::new(name).unwrap());
        if let Some(offered) = keys.offer(&host, &subsystem) {
            assert!(keys.find(offered.text.as_bytes()).is_some());
        }
    }
}
