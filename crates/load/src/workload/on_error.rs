//! Failures after which a job goes on: `continue_on_error`, `ignore_error`.

use super::direction::Direction;
use super::job_report::errno;
use core::fmt;
use core::str::FromStr;
use weft_block::StatusKind;

/// Failures after which a job goes on. All failures are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnError {
    /// Go on after a read that failed.
    pub reads: bool,
    /// Go on after a write, trim or flush that failed.
    pub writes: bool,
    /// `ignore_error`: go on after these errors of reads, and of the others, only. The numbers are
    /// Linux's.
    pub only: [Vec<u32>; 2],
}

/// fio's names of errors.
const NAMES: [(&str, u32); 16] = [
    ("EPERM", 1),
    ("EIO", 5),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EBUSY", 16),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("EBADE", 52),
    ("EILSEQ", 84),
    ("EOPNOTSUPP", 95),
    ("ETIMEDOUT", 110),
    ("EREMOTEIO", 121),
    ("EDQUOT", 122),
    ("ECANCELED", 125),
];

impl OnError {
    /// Go on after every failure.
    pub fn all() -> Self {
        Self { reads: true, writes: true, ..Self::default() }
    }

    /// Sets the errors of `ignore_error`: lists for reads, writes and verification.
    ///
    /// # Errors
    /// A name that is not one of an error.
    pub fn ignore(&mut self, text: &str) -> Result<(), String> {
        let one = |name: &str| {
            let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
            known.or_else(|| name.parse().ok()).ok_or_else(|| {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                format!("{name}: use a number or one of {}", names.join(", "))
            })
        };
        for (list, text) in self.only.iter_mut().zip(text.split(',')) {
            let names = text.split(':').map(str::trim).filter(|name| !name.is_empty());
            *list = names.map(one).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Returns whether the job goes on after an operation of this direction failed with this
    /// status.
    pub(super) fn continues(&self, direction: Direction, kind: StatusKind) -> bool {
        let (goes_on, only) = match direction {
            Direction::Read => (self.reads, &self.only[0]),
            Direction::Write | Direction::Trim => (self.writes, &self.only[1]),
        };
        if only.is_empty() { goes_on } else { only.contains(&errno(kind)) }
    }
}

impl FromStr for OnError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (reads, writes) = match text {
            "none" | "0" | "verify" => (false, false),
            "read" => (true, false),
            "write" => (false, true),
            "io" | "all" | "1" => (true, true),
            _ => return Err("use none, read, write, io, verify or all".into()),
        };
        Ok(Self { reads, writes, ..Self::default() })
    }
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.reads, self.writes) {
            (true, true) => "io",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_errors_go_on_as_asked() {
        let go_on = |on: &OnError| {
            [Direction::Read, Direction::Write]
                .map(|direction| on.continues(direction, StatusKind::NoSpace))
        };
        for (text, expected) in [
            ("none", [false, false]),
            ("verify", [false, false]),
            ("read", [true, false]),
            ("write", [false, true]),
            ("all", [true, true]),
        ] {
            assert_eq!(go_on(&text.parse().unwrap()), expected, "{text}");
        }
        let mut on = OnError::default();
        on.ignore(",ENOSPC:122").unwrap();
        assert_eq!((go_on(&on), &on.only[1]), ([false, true], &vec![28, 122]));
        assert!(!on.continues(Direction::Write, StatusKind::Media));
        assert!(on.ignore("EWHAT").is_err() && "some".parse::<OnError>().is_err());
    }
}
