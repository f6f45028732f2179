//! Choice of an operation's address after the previous one: `rw` with a number behind it,
//! `rw_sequencer`, `percentage_random`, and zones.

use super::direction::Rw;
use super::values::signed_size;

/// Steps from one operation to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// `rw=read:4k`: bytes between the end of a sequential operation and the next one, which lies
    /// before that end if they are negative.
    pub skip: i64,
    /// `rw=randread:8`: operations for each random address.
    pub run: u32,
    /// `rw_sequencer=identical`: all operations of a run have the same address, instead of
    /// following one another.
    pub identical: bool,
    /// `percentage_random`: how many of 100 operations of a random pattern have a random address,
    /// by [`Direction::index`](super::Direction::index). The others follow the previous one.
    pub random_percent: [u8; 3],
}

impl Default for Steps {
    fn default() -> Self {
        Self { skip: 0, run: 1, identical: false, random_percent: [100; 3] }
    }
}

/// `zonemode=strided`: operations stay in a zone until `bytes` have been transferred, then go on to
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// `zonesize`: bytes to transfer in a zone.
    pub bytes: u64,
    /// `zonerange`: bytes of a zone.
    pub range: u64,
    /// `zoneskip`: bytes between two zones.
    pub skip: u64,
}

impl Steps {
    /// `rw` with the number behind it: the pattern, and the operations for each random address or
    /// the bytes between sequential ones.
    ///
    /// # Errors
    /// There is no such pattern, or the number is not valid.
    pub fn of_rw(text: &str) -> Result<(Rw, Self), String> {
        let (name, number) = text.split_once(':').map_or((text, None), |(n, rest)| (n, Some(rest)));
        let (rw, mut steps) = (name.parse::<Rw>()?, Steps::default());
        match number {
            None => {}
            Some(number) if rw.is_random() => {
                steps.run = number.parse().ok().filter(|run| *run > 0).ok_or_else(|| {
                    format!("rw={text}: behind the colon stands a number of operations, at least 1")
                })?;
            }
            Some(number) => {
                steps.skip =
                    signed_size(number).map_err(|problem| format!("rw={text}: {problem}"))?;
            }
        }
        Ok((rw, steps))
    }

    /// `rw` with the number behind it.
    pub(super) fn named(&self, rw: Rw) -> String {
        match (rw.is_random(), self.skip, self.run) {
            (true, _, run) if run > 1 => format!("{rw}:{run}"),
            (false, skip, _) if skip != 0 => format!("{rw}:{skip}"),
            _ => rw.to_string(),
        }
    }

    /// Returns whether an operation may follow the previous one in a random pattern.
    pub(super) fn mixes(&self) -> bool {
        self.run > 1 || self.random_percent.iter().any(|percent| *percent < 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_rw_counts_operations_or_bytes() {
        for (text, pattern, skip, run) in [
            ("read", Rw::Read, 0, 1),
            ("write:4k", Rw::Write, 4096, 1),
            ("read:-8192", Rw::Read, -8192, 1),
            ("randread:8", Rw::RandRead, 0, 8),
            ("rw:112k", Rw::ReadWrite, 112 << 10, 1),
        ] {
            let (found, steps) = Steps::of_rw(text).unwrap();
            assert_eq!((found, steps.skip, steps.run), (pattern, skip, run), "{text}");
        }
        assert_eq!(Steps::of_rw("read:-8k").unwrap().1.named(Rw::Read), "read:-8192");
        assert_eq!(Steps::of_rw("randrw:8").unwrap().1.named(Rw::RandRw), "randrw:8");
        for wrong in ["randread:0", "randread:-1", "read:x", "banana:1", "read:"] {
            assert!(Steps::of_rw(wrong).is_err(), "{wrong}");
        }
    }
}
