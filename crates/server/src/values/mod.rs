//! Values that are written the same on the command line and in a configuration.
//!
//! * [`cores`]: lists of cores.
//! * [`loops`]: what event loops are given.

pub mod cores;
pub mod loops;

use std::num::NonZeroU16;
use std::time::Duration;
use weft_block::{Error, ErrorKind, units};
use weft_endpoint::limits::{CONNECTIONS_CONFIGURED_MAX, CONNECTIONS_CONFIGURED_MIN};
use weft_proto::limits::IO_QUEUES_CONFIGURED_MAX;
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

/// I/O queues that an NVMe controller may have at most.
pub fn max_queues(number: u64) -> Result<NonZeroU16, String> {
    let most = u64::from(IO_QUEUES_CONFIGURED_MAX);
    let fits = Some(number).filter(|number| *number <= most);
    fits.and_then(|number| NonZeroU16::new(number as u16))
        .ok_or_else(|| format!("a controller can have 1 to {most} I/O queues, not {number}"))
}

/// Connections that each export accepts at most.
pub fn max_connections(number: u64) -> Result<usize, String> {
    let range = CONNECTIONS_CONFIGURED_MIN..=CONNECTIONS_CONFIGURED_MAX;
    usize::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!(
            "a server can accept {} to {} connections, not {number}",
            range.start(),
            range.end()
        )
    })
}

/// Makes a parser of the command line of one of the two above.
pub fn number<T>(
    checked: fn(u64) -> Result<T, String>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse::<u64>().map_err(|_| "it is not a number".to_owned())?;
        checked(number)
    }
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
    fn queues_and_connections_are_in_their_ranges() {
        assert_eq!(number(max_queues)("8").map(NonZeroU16::get), Ok(8));
        assert_eq!(number(max_connections)("65000"), Ok(65_000));
        for wrong in ["0", "1025", "65537", "-1", "many", ""] {
            assert!(number(max_queues)(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "15", "65001", "18446744073709551615", "many"] {
            assert!(number(max_connections)(wrong).is_err(), "{wrong}");
        }
        assert!(max_queues(0).unwrap_err().contains("1 to 1024"));
        assert!(max_connections(2).unwrap_err().contains("16 to 65000"));
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
