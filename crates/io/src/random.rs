//! Random numbers of the operating system, for keys, challenges, tags and names: getrandom(2) and
//! its like.

/// Fills `bytes`.
///
/// # Panics
/// If the system has no random numbers: nothing that needs them would be safe without.
pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).unwrap_or_else(|e| panic!("the system has no random numbers: {e}"));
}

/// A number; each is as likely as any other.
///
/// # Panics
/// Like [`fill`].
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_bit_is_always_the_same() {
        let numbers: Vec<u64> = (0..100).map(|_| super::number()).collect();
        assert_eq!(numbers.iter().fold(0, |all, number| all | number), u64::MAX);
        assert_eq!(numbers.iter().fold(u64::MAX, |all, number| all & number), 0);
    }
}
