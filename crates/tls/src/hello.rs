//! The identities in a ClientHello (RFC 8446 §4.2.11).

use crate::limits::TLS_IDENTITIES_MAX;

/// The identities of a `pre_shared_key` extension, the first of them; those in front of what is
/// malformed.
pub(crate) fn identities(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut list, _) = prefixed(extension).unwrap_or_default();
    core::iter::from_fn(move || {
        let (identity, rest) = prefixed(list)?;
        // Behind each is the age of the ticket that it might be.
        list = rest.get(4..)?;
        Some(identity)
    })
    .take(TLS_IDENTITIES_MAX)
}

/// What is behind a length of two bytes, and the rest.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(names: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| [&(name.len() as u16).to_be_bytes(), *name, &[0; 4]].concat())
            .collect();
        // A binder behind them.
        [&(list.len() as u16).to_be_bytes(), &*list, &[0, 33, 32], &[7; 32]].concat()
    }

    #[test]
    fn identities_are_found_in_their_order() {
        let bytes = extension(&[b"one", b"", b"three"]);
        assert_eq!(identities(&bytes).collect::<Vec<_>>(), [b"one".as_slice(), b"", b"three"]);
        let many = extension(&[b"x".as_slice(); 100]);
        assert_eq!(identities(&many).count(), TLS_IDENTITIES_MAX);
    }

    #[test]
    fn what_is_cut_has_no_more_identities_than_are_whole() {
        let bytes = extension(&[b"one", b"two"]);
        // The length of the list, then two identities of 9 bytes.
        for cut in 0..bytes.len() {
            let found = identities(&bytes[..cut]).count();
            assert_eq!(found, if cut < 2 + 18 { 0 } else { 2 }, "cut at {cut}");
        }
        assert_eq!(identities(&[0, 4, 0, 9, 1, 2]).count(), 0);
        assert_eq!(identities(&[0, 5, 0, 1, 7, 0, 0]).count(), 0, "no age");
    }
}
