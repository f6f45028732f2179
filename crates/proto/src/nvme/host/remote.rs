//! A host's knowledge of the controller that it is connected to.

use super::command::BLOCKS_MAX;
use crate::nvme::identify::{IdentifyController, IdentifyNvmController};
use crate::nvme::property::{Capabilities, Version};
use crate::nvme::types::Cntlid;

/// A controller, as it describes itself. The fields are known one after the other; all of them when
/// the host is ready.
#[derive(Clone, Debug)]
pub struct RemoteController {
    /// Identifier, from Connect.
    pub cntlid: Cntlid,
    /// Property CAP.
    pub capabilities: Capabilities,
    /// Property VS.
    pub version: Version,
    /// Identify Controller.
    pub identify: Box<IdentifyController>,
    /// Limits of the NVM command set, where the controller tells them (from version 2.0 on).
    pub nvm: Option<IdentifyNvmController>,
    /// Unsafe shutdowns, where they were asked for and told.
    pub unsafe_shutdowns: Option<u128>,
}

impl Default for RemoteController {
    fn default() -> Self {
        Self {
            cntlid: Cntlid::DYNAMIC,
            capabilities: Capabilities(0),
            version: Version(0),
            identify: Box::default(),
            nvm: None,
            unsafe_shutdowns: None,
        }
    }
}

impl RemoteController {
    /// Bytes that a command may move, at most (MDTS); `u32::MAX` where the controller sets no limit
    /// that low.
    pub fn transfer_bytes_max(&self) -> u32 {
        match self.identify.mdts {
            0 => u32::MAX,
            power => self.pages(power),
        }
    }

    /// 2 to the power of `power` memory pages in bytes, at most `u32::MAX`.
    fn pages(&self, power: u8) -> u32 {
        let bytes = self.capabilities.page_bytes_min().checked_shl(u32::from(power));
        // 15 is the highest exponent of the page size above 4 KiB, so that no bit is lost below a
        // power of 36.
        bytes
            .filter(|_| power <= 36)
            .and_then(|bytes| u32::try_from(bytes).ok())
            .unwrap_or(u32::MAX)
    }

    /// Bytes of data that a command capsule on an I/O queue may carry behind the command (IOCCSZ,
    /// ICDOFF); 0 where it carries none, or only at an offset.
    pub fn in_capsule_bytes(&self) -> u32 {
        if self.identify.sgls & IdentifyController::SGLS_OFFSET == 0 || self.identify.icdoff != 0 {
            return 0;
        }
        self.identify.ioccsz.saturating_mul(16).saturating_sub(64)
    }

    /// Returns whether all of `bits` of ONCS are set.
    pub(super) fn supports(&self, bits: u16) -> bool {
        self.identify.oncs & bits == bits
    }

    /// Blocks that a Write Zeroes command may name. Controllers that do not tell a limit of their
    /// own are spared more than what they take as data, although MDTS does not count for commands
    /// without data: some stumble over it.
    pub(super) fn write_zeroes_blocks_max(&self, block_bytes: u32) -> u32 {
        let bytes = match &self.nvm {
            Some(nvm) if nvm.wzsl != 0 => self.pages(nvm.wzsl),
            Some(_) => u32::MAX,
            None => self.transfer_bytes_max(),
        };
        (bytes / block_bytes).clamp(1, BLOCKS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(mdts: u8, page_power: u64) -> RemoteController {
        let identify = IdentifyController { mdts, ..Default::default() };
        RemoteController {
            capabilities: Capabilities(page_power << 48),
            identify: Box::new(identify),
            ..Default::default()
        }
    }

    #[test]
    fn mdts_counts_in_pages_and_never_overflows() {
        assert_eq!(remote(0, 0).transfer_bytes_max(), u32::MAX);
        assert_eq!(remote(8, 0).transfer_bytes_max(), 1 << 20);
        assert_eq!(remote(5, 2).transfer_bytes_max(), 512 << 10);
        assert_eq!(remote(19, 0).transfer_bytes_max(), 1 << 31);
        for mdts in 20..=255 {
            assert_eq!(remote(mdts, 15).transfer_bytes_max(), u32::MAX, "{mdts}");
        }
    }

    #[test]
    fn in_capsule_data_needs_offsets() {
        let mut remote = remote(0, 0);
        remote.identify.ioccsz = 0x204;
        assert_eq!(remote.in_capsule_bytes(), 0);
        remote.identify.sgls = IdentifyController::SGLS_OFFSET;
        assert_eq!(remote.in_capsule_bytes(), 8192);
        remote.identify.ioccsz = u32::MAX;
        assert_eq!(remote.in_capsule_bytes(), u32::MAX - 64);
        remote.identify.icdoff = 1;
        assert_eq!(remote.in_capsule_bytes(), 0);
    }

    #[test]
    fn write_zeroes_limits() {
        let mut remote = remote(5, 0);
        assert_eq!(remote.write_zeroes_blocks_max(512), 256);
        remote.nvm = Some(IdentifyNvmController::default());
        assert_eq!(remote.write_zeroes_blocks_max(512), BLOCKS_MAX);
        remote.nvm = Some(IdentifyNvmController { wzsl: 2, ..Default::default() });
        assert_eq!(remote.write_zeroes_blocks_max(4096), 4);
        assert_eq!(remote.write_zeroes_blocks_max(1 << 16), 1);
    }
}
