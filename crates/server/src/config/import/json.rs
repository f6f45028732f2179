//! Parts of configurations in JSON.

use serde_json::Value;

/// The URL of an address; none for a transport that weft does not have.
pub fn listener(trtype: &str, traddr: &str, trsvcid: &str) -> Option<String> {
    let host = if traddr.contains(':') && !traddr.starts_with('[') {
        format!("[{traddr}]")
    } else {
        traddr.to_owned()
    };
    trtype.eq_ignore_ascii_case("tcp").then(|| format!("nvme+tcp://{host}:{trsvcid}"))
}

/// A text of an object; numbers count as texts, too.
pub fn text(of: &Value, name: &str) -> Option<String> {
    match &of[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A list of an object; empty if there is none.
pub fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Whether an identity was set: those of zeroes were not.
pub fn is_set(identity: &str) -> bool {
    identity.bytes().any(|byte| !matches!(byte, b'0' | b'-'))
}
