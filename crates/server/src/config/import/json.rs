//! Parts of configurations in JSON.

use serde_json::Value;
use weft_endpoint::url::{NVME_RDMA, NVME_TCP};

/// The URL of an address; none for a transport that weft does not have.
pub fn listener(trtype: &str, traddr: &str, trsvcid: &str) -> Option<String> {
    let host = if traddr.contains(':') && !traddr.starts_with('[') {
        format!("[{traddr}]")
    } else {
        traddr.to_owned()
    };
    let scheme = match trtype.to_ascii_lowercase().as_str() {
        "tcp" => NVME_TCP,
        "rdma" => NVME_RDMA,
        _ => return None,
    };
    Some(format!("{scheme}{host}:{trsvcid}"))
}

/// A text of an object; numbers count as texts, too.
pub fn text(of: &Value, name: &str) -> Option<String> {
    match &of[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text that is not empty.
pub fn word(of: &Value, name: &str) -> Option<String> {
    text(of, name).filter(|text| !text.is_empty())
}

/// A number, which may be written as a text.
pub fn number(of: &Value, name: &str) -> Option<u64> {
    text(of, name)?.trim().parse().ok()
}

/// A switch: true, or a number other than zero, as the kernel and its tools write it. `None`: it is
/// absent, or neither on nor off.
pub fn switch(of: &Value, name: &str) -> Option<bool> {
    match &of[name] {
        Value::Bool(is_on) => Some(*is_on),
        _ => number(of, name).map(|number| number != 0),
    }
}

/// A list of an object; empty if there is none.
pub fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether an identity was set: those of zeroes were not.
pub fn is_set(identity: &str) -> bool {
    identity.bytes().any(|byte| !matches!(byte, b'0' | b'-'))
}

/// Reports members of an object that are not among `known`: a rule that an import does not know.
pub fn report_unknown(whose: &str, of: &Value, known: &[&str], left: &mut Vec<String>) {
    let names = of.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    report_unknown_names(whose, names, known, left);
}

/// As [`report_unknown`], of names from another form than JSON.
pub fn report_unknown_names<'a>(
    whose: &str,
    names: impl Iterator<Item = &'a str>,
    known: &[&str],
    left: &mut Vec<String>,
) {
    let unknown: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    if !unknown.is_empty() {
        left.push(format!("{whose} has {}, which weft does not know", unknown.join(", ")));
    }
}
