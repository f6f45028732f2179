//! CRC32C, the checksum of NVMe/TCP's and iSCSI's digests. It uses wide carry-less multiplication
//! if the CPU supports it.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC32C of some bytes with the CRC32C `before` and of `bytes` behind them.
#[inline]
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    // Nothing, whose checksum is 0, is what most payloads begin with.
    if before == 0 {
        return crc32c(bytes);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_go_on_at_any_place() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        let whole = crc32c(&bytes);
        for at in [0, 1, 3, 63, 64, 255, 256, 4096, 4999, 5000] {
            assert_eq!(crc32c_append(crc32c(&bytes[..at]), &bytes[at..]), whole, "{at}");
        }
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
