//! Values that are written the same on the command line and in a configuration.
//!
//! * [`cores`]: lists of cores.
//! * [`loops`]: what event loops are given.

pub mod cores;
pub mod loops;

use std::time::Duration;
use weft_block::{Error, ErrorKind, units};
use weft_proto::nvme::controller::CNTLID_MAX;
use weft_proto::nvme::types::Nqn;

/// An NQN.
pub fn parse_nqn(text: &str) -> Result<Nqn, Error> {
    Nqn::new(text)
        .map_err(|e| Error::new(ErrorKind::Usage, format!("\"{text}\" is not an NQN: {e}")))
}

/// The lowest and the highest identifier of a range.
pub fn parse_cntlids(text: &str) -> Result<(u16, u16), String> {
    let numbers = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let range = numbers
        .filter(|&(first, last): &(u16, u16)| first > 0 && first <= last && last <= CNTLID_MAX);
    range.ok_or_else(|| format!("use MIN-MAX within 1-{CNTLID_MAX}"))
}

/// The time from which on a command is slow.
pub fn slow(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text).map_err(|e| e.to_string())? {
        Duration::ZERO => {
            Err("every command takes that long; use a time above 0, as in 10ms".into())
        }
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_is_more_than_nothing() {
        assert_eq!(slow("10ms"), Ok(Duration::from_millis(10)));
        assert!(slow("0s").unwrap_err().contains("above 0") && slow("fast").is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!(parse_cntlids("1-1000"), Ok((1, 1000)));
        assert_eq!(parse_cntlids("65519-65519"), Ok((65519, 65519)));
        for wrong in ["", "1", "0-5", "5-4", "1-65520", "a-b", "1-2-3", "-1-2"] {
            assert!(parse_cntlids(wrong).is_err(), "{wrong}");
        }
    }
}
