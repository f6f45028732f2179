//! Asymmetric Namespace Access log page (Base §5.16.1.13; 2.1 §5.1.12.1.13): a header, then a
//! descriptor per ANA group with the namespaces in it.

use crate::nvme::types::Nsid;
use crate::nvme::wire::{DecodeError, Field, codes, structure};

codes! {
    /// Asymmetric namespace access state of a group as one controller reports it (Base §8.1.1).
    pub struct AnaState(u8) {
        0x1 OPTIMIZED "ANA optimized";
        0x2 NON_OPTIMIZED "ANA non-optimized";
        0x3 INACCESSIBLE "ANA inaccessible";
        0x4 PERSISTENT_LOSS "ANA persistent loss";
        0xf CHANGE "ANA change";
    }
}

structure! {
    /// The header.
    pub struct AnaHeader[16] {
        /// Change Count: counts changes of the log page; 0 where the controller does not count.
        0 chgcnt: u64,
        /// Number of ANA Group Descriptors.
        8 ngrps: u16,
    }
}

impl AnaHeader {
    /// Log Specific Parameter bit 0 of Get Log Page, Return Groups Only (RGO): the descriptors name
    /// no namespaces.
    pub const GROUPS_ONLY: u8 = 1;
}

structure! {
    /// ANA Group Descriptor without its list of namespaces.
    pub struct AnaGroupDescriptor[32] {
        /// ANA Group ID.
        0 grpid: u32,
        /// Number of NSID Values that follow.
        4 nnsids: u32,
        /// Change Count of the group; 0 where the controller does not count.
        8 chgcnt: u64,
        /// ANA State in bits 3:0.
        16 state: AnaState,
    }
}

/// The groups of a log page, one after the other, each with its namespaces in ascending order. It
/// ends after the first descriptor that does not fit into what was read, with an error.
#[derive(Clone, Debug)]
pub struct AnaGroups<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> AnaGroups<'a> {
    /// Begins to read a log page; fails where not even the header is there.
    pub fn new(page: &'a [u8]) -> Result<Self, DecodeError> {
        let header = AnaHeader::decode(page)?;
        Ok(Self { rest: &page[AnaHeader::BYTES..], left: header.ngrps })
    }

    fn take(&mut self) -> Result<(AnaGroupDescriptor, AnaNamespaces<'a>), DecodeError> {
        let mut group = AnaGroupDescriptor::decode(self.rest)?;
        group.state.0 &= 0xf;
        let list = &self.rest[AnaGroupDescriptor::BYTES..];
        let bytes =
            (group.nnsids as usize).checked_mul(Nsid::BYTES).filter(|&bytes| bytes <= list.len());
        let bytes = bytes.ok_or(DecodeError::Field {
            structure: "ANA Group Descriptor",
            field: "Number of NSID Values",
            offset: 4,
            problem: "is more than the log page holds",
        })?;
        let (list, rest) = list.split_at(bytes);
        self.rest = rest;
        Ok((group, AnaNamespaces(list)))
    }
}

impl<'a> Iterator for AnaGroups<'a> {
    type Item = Result<(AnaGroupDescriptor, AnaNamespaces<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let taken = self.take();
        if taken.is_err() {
            self.left = 0;
        }
        Some(taken)
    }
}

/// The namespaces of a group.
#[derive(Clone, Debug)]
pub struct AnaNamespaces<'a>(&'a [u8]);

impl Iterator for AnaNamespaces<'_> {
    type Item = Nsid;

    fn next(&mut self) -> Option<Nsid> {
        let (first, rest) = self.0.split_at_checked(Nsid::BYTES)?;
        self.0 = rest;
        Some(Nsid::read(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups: 1 (optimized: 1, 3), 2 (inaccessible: none).
    fn page() -> Vec<u8> {
        let mut page = AnaHeader { chgcnt: 7, ngrps: 2 }.encode();
        page.extend(
            AnaGroupDescriptor { grpid: 1, nnsids: 2, chgcnt: 5, state: AnaState::OPTIMIZED }
                .encode(),
        );
        page.extend([1, 0, 0, 0, 3, 0, 0, 0]);
        page.extend(
            AnaGroupDescriptor { grpid: 2, nnsids: 0, chgcnt: 7, state: AnaState::INACCESSIBLE }
                .encode(),
        );
        page
    }

    #[test]
    fn page_bytes() {
        let page = page();
        assert_eq!(page[..16], [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(page[16..34], [1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(page[56..73], [2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3]);
        let groups: Vec<_> = AnaGroups::new(&page)
            .unwrap()
            .map(|group| group.unwrap())
            .map(|(g, n)| (g.grpid, g.state, n.collect()))
            .collect();
        let expected =
            [(1, AnaState::OPTIMIZED, vec![Nsid(1), Nsid(3)]), (2, AnaState::INACCESSIBLE, vec![])];
        assert_eq!(groups, expected);
    }

    #[test]
    fn a_page_cut_anywhere_ends_with_an_error() {
        let page = page();
        for len in 0..page.len() {
            match AnaGroups::new(&page[..len]) {
                Err(_) => assert!(len < 16),
                Ok(groups) => assert!(groups.last().unwrap().is_err(), "{len}"),
            }
        }
    }
}
