//! Deviations of a peer from the specifications that are tolerated (`docs/compatibility.md` lists
//! all of them, with the behaviour of other programs). Both ends record a deviation when it occurs;
//! the layer above logs it once per peer.

use core::fmt;

macro_rules! deviations {
    ($($name:ident $text:literal;)*) => {
        /// A tolerated deviation. It is displayed as the part of a sentence that follows the peer's
        /// name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Deviation {
            $(#[doc = $text] $name,)*
        }

        impl Deviation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

deviations! {
    NoHostName "sends no name (HOSTNQN, Base §6.3); it sees what is visible to every host";
    HostName "has a name that does not have the form nqn.YYYY-MM.DOMAIN:NAME (HOSTNQN, Base §4.7); using it unchanged";
    NoHostIdentifier "sends the host identifier zero (HOSTID, Base §5.27.1.25); using it unchanged";
    OtherHostIdentifier "sends another host identifier for its I/O queues (HOSTID, Base §6.3); that of the admin queue applies";
    IoQueueKeepAlive "sends a keep alive timeout for an I/O queue (KATO, Base §6.3); that of the admin queue applies";
    ConnectDataFetched "does not send the data of Connect in the capsule (TCP §3.3.1.1); weft fetches it";
    CommandSetsNotOffered "selects all I/O command sets although this is not offered (CC.CSS, Base §3.1.4.5); it gets the NVM Command Set";
    CommandSetsChanged "changes the command sets of an enabled controller (CC.CSS, Base §3.1.4.5); they stay unchanged";
    StartWithoutReset "starts the controller again after a shutdown without a reset (CC, Base §3.6); it starts";
    CommandSetsOfNobody "requests the command sets of a controller that cannot exist (CNTID, Base §5.17.2.21); it gets those of this controller";
    FeatureSelect "selects saved or default values of features (Select, Base §5.15), which are not supported; it gets the current values";
    EventsNotOffered "enables asynchronous events that are not offered (OAES, Base §5.27.1.8); they never occur";
    LogPageOfNamespace "requests a log page of the controller by namespace (NSID, Base §5.16); it gets the controller's";
    TooManyAborts "has more Aborts outstanding than allowed (ACL, Base §5.1); those are answered as not aborted";
    LastPdu "does not set LAST_PDU in exactly the last data PDU (TCP §3.6.2.8); the requested number of bytes applies";
    DigestFlags "sets flags of digests that were not negotiated (HDGSTF, DDGSTF, TCP §3.6.2); they are ignored";
    EmptyData "sends data PDUs without data (TCP §3.6.2.8, §3.6.2.9); they are ignored";
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

const _: () = assert!(Deviation::ALL.len() <= u32::BITS as usize);

/// A set of deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u32);

impl Deviations {
    /// Adds one.
    #[inline]
    pub fn note(&mut self, deviation: Deviation) {
        self.0 |= 1 << deviation as u8;
    }

    /// Adds one if it occurred.
    #[inline]
    pub fn note_if(&mut self, happened: bool, deviation: Deviation) {
        self.0 |= u32::from(happened) << deviation as u8;
    }

    /// Adds all of another set; returns the new ones.
    pub fn add(&mut self, others: Self) -> Self {
        let new = Self(others.0 & !self.0);
        self.0 |= others.0;
        new
    }

    /// Removes and returns all.
    #[inline]
    pub fn take(&mut self) -> Self {
        core::mem::take(self)
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Deviation> {
        Deviation::ALL.iter().copied().filter(move |&deviation| self.0 >> deviation as u8 & 1 != 0)
    }
}

impl FromIterator<Deviation> for Deviations {
    fn from_iter<T: IntoIterator<Item = Deviation>>(deviations: T) -> Self {
        let mut set = Self::default();
        deviations.into_iter().for_each(|deviation| set.note(deviation));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_says_what_is_new() {
        let mut said = Deviations::default();
        let first = Deviations::from_iter([Deviation::NoHostName, Deviation::EmptyData]);
        assert_eq!(said.add(first), first);
        let second = Deviations::from_iter([Deviation::EmptyData, Deviation::LastPdu]);
        assert_eq!(said.add(second).iter().collect::<Vec<_>>(), [Deviation::LastPdu]);
        assert_eq!(said.iter().count(), 3);
        assert!(!said.take().is_empty() && said.is_empty());
        said.note_if(false, Deviation::LastPdu);
        assert!(said.is_empty());
    }

    #[test]
    fn each_says_which_field_and_where_it_is_forbidden() {
        for deviation in Deviation::ALL {
            let text = deviation.to_string();
            assert!(text.contains('§') && text.contains("; "), "{text}");
        }
    }
}
