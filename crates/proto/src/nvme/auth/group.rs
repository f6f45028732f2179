//! Diffie-Hellman over the finite fields of RFC 7919 (ffdhe2048 to ffdhe8192), generator 2.
//!
//! A prime of `n` bits is 2^n − 2^(n−64) + (⌊2^(n−130)·e⌋ + X)·2^64 − 1, where X is the least
//! number that makes it a safe prime. All are made from the digits of the longest one.

use super::Random;
use super::algorithm::Group;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use zeroize::{Zeroize, Zeroizing};

/// The prime of 8192 bits, in hexadecimal digits.
const LONGEST: &str = include_str!("prime.txt");

/// Bits of an exponent: twice the strength of the longest group, and more (RFC 7919 §5.2).
const EXPONENT_BITS: u32 = 512;

/// X of each group (RFC 7919, appendix A), less the one that the ones at the end borrow.
fn offset(group: Group) -> u64 {
    let x = match group {
        Group::Null => 1,
        Group::Ffdhe2048 => 560_316,
        Group::Ffdhe3072 => 2_625_351,
        Group::Ffdhe4096 => 5_736_041,
        Group::Ffdhe6144 => 15_705_020,
        Group::Ffdhe8192 => 10_965_728,
    };
    x - 1
}

/// The prime of a group that is one.
fn prime(group: Group) -> Odd<BoxedUint> {
    let longest = Group::Ffdhe8192;
    let digits: Vec<u8> = LONGEST.bytes().filter(u8::is_ascii_hexdigit).collect();
    let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect();
    let whole = BoxedUint::from_be_slice_truncated(&bytes, longest.bits());
    // The middle of the longest prime, between the 64 ones at each end, is ⌊2^8062·e⌋ + X − 1.
    let bits = longest.bits() - 128;
    let middle = whole.shr(64).resize_unchecked(bits);
    let digits_of_e = middle.wrapping_sub(BoxedUint::from(offset(longest)).resize(bits));
    let own = group.bits() - 128;
    let middle = digits_of_e.shr(longest.bits() - group.bits()).resize_unchecked(own);
    let middle = middle.wrapping_add(BoxedUint::from(offset(group)).resize(own));
    let mut bytes = vec![0xff; group.bytes()];
    bytes[8..group.bytes() - 8].copy_from_slice(&middle.to_be_bytes());
    let prime = BoxedUint::from_be_slice_truncated(&bytes, group.bits());
    Option::from(prime.to_odd()).expect("it ends with ones")
}

/// An exponent, which is wiped when it is dropped.
struct Exponent(BoxedUint);

impl Exponent {
    fn new(random: Random<'_>) -> Self {
        let mut bytes = Zeroizing::new([0; EXPONENT_BITS as usize / 8]);
        random(&mut *bytes);
        Self(BoxedUint::from_be_slice_truncated(&*bytes, EXPONENT_BITS))
    }
}

impl Drop for Exponent {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The private and the public half of a key, for one exchange.
pub(super) struct KeyPair {
    group: Group,
    params: BoxedMontyParams,
    exponent: Exponent,
    public: Vec<u8>,
}

impl KeyPair {
    /// A new one. `None`: there is no group.
    pub(super) fn new(group: Group, random: Random<'_>) -> Option<Self> {
        (group != Group::Null).then(|| Self::of(group, Exponent::new(random)))
    }

    fn of(group: Group, exponent: Exponent) -> Self {
        let params = BoxedMontyParams::new_vartime(prime(group));
        let two = BoxedMontyForm::new(BoxedUint::from(2u64).resize(group.bits()), &params);
        let public =
            two.pow_bounded_exp(&exponent.0, EXPONENT_BITS).retrieve().to_be_bytes().into_vec();
        Self { group, params, exponent, public }
    }

    /// Returns the public half for the peer: as many bytes as the group has, the most significant
    /// first.
    pub(super) fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the shared secret, in as many bytes. `None`: the peer's value is not in the group,
    /// or one with which anybody would know the secret.
    pub(super) fn agree(&self, theirs: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if theirs.len() != self.group.bytes() {
            return None;
        }
        let value = BoxedUint::from_be_slice_truncated(theirs, self.group.bits());
        let one = BoxedUint::one_with_precision(self.group.bits());
        let last = self.params.modulus().as_ref().wrapping_sub(&one);
        // From 2 to p − 2: 0, 1 and p − 1 generate groups of two elements at most.
        if value <= one || value >= last {
            return None;
        }
        let mut shared = BoxedMontyForm::new(value, &self.params)
            .pow_bounded_exp(&self.exponent.0, EXPONENT_BITS);
        let mut plain = shared.retrieve();
        let bytes = Zeroizing::new(plain.to_be_bytes().into_vec());
        shared.zeroize();
        plain.zeroize();
        Some(bytes)
    }
}

/// A power of a large number that an authentication needs next. It takes milliseconds: whoever has
/// the authentication decides where it is computed. It holds everything that it needs, and can be
/// sent to another thread.
pub struct Arithmetic(Power);

enum Power {
    /// The public half of a key.
    Pair(Group, Exponent),
    /// The shared secret, with this public half of the other side.
    Agree(Box<KeyPair>, Vec<u8>),
}

/// Result of a computation.
pub struct Computed(pub(super) Outcome);

pub(super) enum Outcome {
    Pair(Box<KeyPair>),
    /// `None`: the other end's value is of no use.
    Agreed(Option<Zeroizing<Vec<u8>>>),
}

impl Arithmetic {
    /// A new key of this group. `None`: there is no group.
    pub(super) fn pair(group: Group, random: Random<'_>) -> Option<Self> {
        (group != Group::Null).then(|| Self(Power::Pair(group, Exponent::new(random))))
    }

    pub(super) fn agree(pair: Box<KeyPair>, theirs: &[u8]) -> Self {
        Self(Power::Agree(pair, theirs.to_vec()))
    }

    /// Computes it, here and now.
    pub fn run(self) -> Computed {
        Computed(match self.0 {
            Power::Pair(group, exponent) => Outcome::Pair(Box::new(KeyPair::of(group, exponent))),
            Power::Agree(pair, theirs) => Outcome::Agreed(pair.agree(&theirs)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn primes_are_those_of_the_rfc() {
        // RFC 7919, appendix A: the last digits of each.
        for (group, end) in [
            (Group::Ffdhe2048, "c58ef1837d1683b2c6f34a26c1b2effa886b423861285c97ffffffffffffffff"),
            (Group::Ffdhe3072, "0abcd06bfa53ddef3c1b20ee3fd59d7c25e41d2b66c62e37ffffffffffffffff"),
            (Group::Ffdhe4096, "8ec9b55a7f88a46b4db5a851f44182e1c68a007e5e655f6affffffffffffffff"),
            (Group::Ffdhe6144, "62a69526d43161c1a41d570d7938dad4a40e329cd0e40e65ffffffffffffffff"),
            (Group::Ffdhe8192, "0822e506a9f4614e011e2a94838ff88cd68c8bb7c5c6424cffffffffffffffff"),
        ] {
            let prime = hex(&prime(group).as_ref().to_be_bytes());
            assert_eq!(prime.len(), group.bytes() * 2);
            assert!(
                prime.starts_with("ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1")
                    && prime.ends_with(end),
                "{group:?}: {prime}"
            );
        }
    }

    #[test]
    fn both_ends_know_the_same() {
        let mut seed = 0u8;
        let mut random = |bytes: &mut [u8]| {
            bytes.iter_mut().for_each(|byte| {
                seed = seed.wrapping_mul(13).wrapping_add(7);
                *byte = seed;
            });
        };
        for group in [Group::Ffdhe2048, Group::Ffdhe3072] {
            let one = KeyPair::new(group, &mut random).expect("a group");
            let other = KeyPair::new(group, &mut random).expect("a group");
            let (ours, theirs) = (
                one.agree(other.public()).expect("a value"),
                other.agree(one.public()).expect("a value"),
            );
            assert_eq!((ours.len(), &ours), (group.bytes(), &theirs));
        }
        assert!(KeyPair::new(Group::Null, &mut random).is_none());
    }

    #[test]
    fn values_that_everybody_knows_are_refused() {
        let key = KeyPair::new(Group::Ffdhe2048, &mut |bytes| bytes.fill(9)).expect("a group");
        let of = |last: u8| {
            let mut bytes = vec![0; 256];
            bytes[255] = last;
            bytes
        };
        let mut least = prime(Group::Ffdhe2048).as_ref().to_be_bytes().into_vec();
        assert!(key.agree(&least).is_none(), "p");
        least[255] -= 1;
        assert!(key.agree(&least).is_none(), "p - 1");
        assert!(
            key.agree(&of(0)).is_none()
                && key.agree(&of(1)).is_none()
                && key.agree(&of(2)).is_some()
        );
        assert!(
            key.agree(&[0xff; 256]).is_none()
                && key.agree(&[5; 255]).is_none()
                && key.agree(&[]).is_none()
        );
    }
}
