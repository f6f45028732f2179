//! Deviations from the standard that occur in the field and that other implementations tolerate: so
//! does this one. They are recorded, so that the layer above can log each once.

/// A tolerated deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Deviation {
    /// §6.2: no key is negotiated twice. The last value applies, as in the last answer.
    #[error(
        "it negotiates a key a second time, which RFC 7143 §6.2 forbids; the last value applies"
    )]
    RepeatedKey,
    /// §6.1: a null byte ends each pair.
    #[error("the last pair of its text has no terminating null byte, which RFC 7143 §6.1 requires")]
    Unterminated,
    /// §6.1: values are UTF-8 without control characters.
    #[error("its text contains bytes that are not UTF-8 text, which RFC 7143 §6.1 requires")]
    Unreadable,
    /// §6.2: an offer is answered before the stage ends. The offered value stays.
    #[error(
        "it ends the login with offers that can no longer be answered, which RFC 7143 §6.2 forbids"
    )]
    Unanswered,
    /// §11.8: an R2T requests at most MaxBurstLength.
    #[error(
        "it requests more data at a time than MaxBurstLength, which RFC 7143 §11.8 forbids; weft sends it"
    )]
    LongBurst,
    /// §6.1: a text consists of pairs of a key and a value.
    #[error(
        "its list of targets has a record that is not KEY=VALUE, which RFC 7143 §6.1 requires; weft skips it"
    )]
    NotAPair,
}

impl Deviation {
    const ALL: [Self; 6] = [
        Self::RepeatedKey,
        Self::Unterminated,
        Self::Unreadable,
        Self::Unanswered,
        Self::LongBurst,
        Self::NotAPair,
    ];
}

/// The deviations of a peer, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u8);

impl Deviations {
    /// Adds one.
    pub(super) fn add(&mut self, deviation: Deviation) {
        self.0 |= 1 << deviation as u8;
    }

    /// Adds one; returns it if it is new.
    pub(super) fn note(&mut self, deviation: Deviation) -> Option<Deviation> {
        let before = *self;
        self.add(deviation);
        (before != *self).then_some(deviation)
    }

    /// Adds the deviations in the form of a text.
    pub(super) fn add_text(&mut self, text: &[u8]) {
        if text.last().is_some_and(|&byte| byte != 0) {
            self.add(Deviation::Unterminated);
        }
        let is_text = |text: &str| text.chars().all(|c| c == '\0' || !c.is_control());
        if !core::str::from_utf8(text).is_ok_and(is_text) {
            self.add(Deviation::Unreadable);
        }
    }

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that `known` does not have.
    #[must_use]
    pub const fn without(self, known: Self) -> Self {
        Self(self.0 & !known.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Deviation> {
        Deviation::ALL.into_iter().filter(move |&deviation| self.0 & 1 << deviation as u8 != 0)
    }

    /// A single one.
    pub const fn of(deviation: Deviation) -> Self {
        Self(1 << deviation as u8)
    }

    /// The bits, for storage.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From such bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_noted_once() {
        let mut found = Deviations::default();
        found.add_text(b"a=b\0\0c=d\0");
        found.add_text(b"");
        assert_eq!(found.iter().count(), 0);
        found.add_text(b"a=b\0c=d");
        found.add_text(b"a=\xff\0");
        found.add_text(b"a=\x1b\0");
        found.add(Deviation::LongBurst);
        found.add(Deviation::LongBurst);
        let all: Vec<_> = found.iter().collect();
        assert_eq!(all, [Deviation::Unterminated, Deviation::Unreadable, Deviation::LongBurst]);
        let known = Deviations::from_bits(found.bits());
        found.add(Deviation::RepeatedKey);
        assert!(
            found.without(known).iter().eq([Deviation::RepeatedKey])
                && known.without(found).iter().next().is_none()
        );
    }
}
