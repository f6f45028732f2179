//! Controller properties (Base §3.1.4): a fabrics host accesses them with Property Get and Property
//! Set; a local host has registers instead.

use super::wire::codes;

codes! {
    /// Offset of a property (Base, "Property Definition").
    pub struct PropertyOffset(u32) {
        0x00 CAP "Controller Capabilities";
        0x08 VS "Version";
        0x14 CC "Controller Configuration";
        0x1c CSTS "Controller Status";
        0x20 NSSR "NVM Subsystem Reset";
        0x68 CRTO "Controller Ready Timeouts";
    }
}

impl PropertyOffset {
    /// Bytes of the property, 4 or 8, if this crate knows it.
    pub const fn bytes(self) -> Option<u8> {
        match self {
            Self::CAP => Some(8),
            Self::VS | Self::CC | Self::CSTS | Self::NSSR | Self::CRTO => Some(4),
            _ => None,
        }
    }
}

/// A revision of the Base specification: property VS, and the field VER of Identify Controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// 1.3.
    pub const V1_3: Self = Self(0x0001_0300);
    /// 2.0.
    pub const V2_0: Self = Self(0x0002_0000);
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.0 >> 16, self.0 >> 8 & 0xff)?;
        match self.0 & 0xff {
            0 => Ok(()),
            tertiary => write!(f, ".{tertiary}"),
        }
    }
}

/// Property CAP, Controller Capabilities (Base §3.1.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// CQR: queues are contiguous; always set on fabrics.
    pub const CONTIGUOUS_QUEUES: u64 = 1 << 16;
    /// CSS bit 0: the NVM command set, or a discovery controller.
    pub const NVM_COMMAND_SET: u64 = 1 << 37;
    /// CSS bit 6: one or more command sets, which Identify (CNS 1Ch) lists.
    pub const COMMAND_SETS: u64 = 1 << 43;
    /// CSS bit 7: no I/O command set.
    pub const ADMIN_ONLY: u64 = 1 << 44;
    /// CRMS bit 0: Controller Ready With Media; always set from version 2.0 on, and then CRTO is
    /// there.
    pub const READY_WITH_MEDIA: u64 = 1 << 59;

    /// Capabilities of a controller whose queues have up to `entries` entries (at least 2) and
    /// which changes CSTS.RDY within `timeout_ms` (rounded up to half seconds, at most 127.5 s).
    /// The caller adds the bits above.
    pub const fn new(entries: u16, timeout_ms: u32) -> Self {
        let halves = timeout_ms.div_ceil(500);
        let halves = if halves > 0xff { 0xff } else { halves };
        Self((entries.saturating_sub(1)) as u64 | (halves as u64) << 24)
    }

    /// Returns whether all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// MQES: entries of a queue, 2 to 65536. Some controllers report 0 in the field for 1; a queue
    /// cannot be smaller than 2.
    pub const fn queue_entries(self) -> u32 {
        let entries = (self.0 & 0xffff) as u32 + 1;
        if entries < 2 { 2 } else { entries }
    }

    /// TO: how long CSTS.RDY may take to follow CC.EN, in milliseconds.
    pub const fn timeout_ms(self) -> u32 {
        (self.0 >> 24 & 0xff) as u32 * 500
    }

    /// MPSMIN: the smallest memory page in bytes, which is the unit of MDTS.
    pub const fn page_bytes_min(self) -> u64 {
        1 << (12 + (self.0 >> 48 & 0xf))
    }
}

/// Property CC, Controller Configuration (Base §3.1.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration(pub u32);

impl Configuration {
    /// EN: the controller processes commands.
    pub const ENABLE: u32 = 1;
    /// CSS: all supported command sets instead of the NVM command set alone.
    pub const ALL_COMMAND_SETS: u32 = 6 << 4;
    /// CSS: admin commands only.
    pub const ADMIN_ONLY: u32 = 7 << 4;
    /// SHN: a normal shutdown is wanted.
    pub const SHUTDOWN_NORMAL: u32 = 1 << 14;
    /// SHN: an abrupt shutdown is wanted.
    pub const SHUTDOWN_ABRUPT: u32 = 2 << 14;
    /// IOSQES and IOCQES of the NVM command set: entries of 64 and 16 bytes.
    pub const NVM_ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;

    /// EN.
    pub const fn enabled(self) -> bool {
        self.0 & Self::ENABLE != 0
    }

    /// CSS, bits 6:4.
    pub const fn command_sets(self) -> u32 {
        self.0 >> 4 & 7
    }

    /// The same with the CSS of another value.
    pub const fn with_command_sets_of(self, other: Self) -> Self {
        Self(self.0 & !(7 << 4) | other.command_sets() << 4)
    }

    /// MPS, bits 10:7: memory page size, 0 for 4 KiB.
    pub const fn page_size(self) -> u32 {
        self.0 >> 7 & 0xf
    }

    /// AMS, bits 13:11: arbitration mechanism, 0 for round robin.
    pub const fn arbitration(self) -> u32 {
        self.0 >> 11 & 7
    }

    /// SHN, bits 15:14.
    pub const fn shutdown(self) -> u32 {
        self.0 >> 14 & 3
    }

    /// IOSQES, bits 19:16: submission queue entries of 2 to this power bytes.
    pub const fn submission_entry_size(self) -> u32 {
        self.0 >> 16 & 0xf
    }

    /// IOCQES, bits 23:20: completion queue entries of 2 to this power bytes.
    pub const fn completion_entry_size(self) -> u32 {
        self.0 >> 20 & 0xf
    }
}

codes! {
    /// SHST, bits 3:2 of CSTS.
    pub struct ShutdownStatus(u8) {
        0 NONE "no shutdown";
        1 IN_PROGRESS "shutting down";
        2 COMPLETE "shut down";
    }
}

/// Property CSTS, Controller Status (Base §3.1.4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// RDY: ready to process commands.
    pub const READY: u32 = 1;
    /// CFS: a fatal error.
    pub const FATAL: u32 = 1 << 1;

    /// The status of these parts.
    pub const fn new(ready: bool, fatal: bool, shutdown: ShutdownStatus) -> Self {
        let ready = if ready { Self::READY } else { 0 };
        let fatal = if fatal { Self::FATAL } else { 0 };
        Self(ready | fatal | ((shutdown.0 & 3) as u32) << 2)
    }

    /// RDY.
    pub const fn ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// CFS. All bits set is what a host reads from a controller that is gone, which is fatal as
    /// well.
    pub const fn fatal(self) -> bool {
        self.0 & Self::FATAL != 0
    }

    /// SHST.
    pub const fn shutdown(self) -> ShutdownStatus {
        ShutdownStatus((self.0 >> 2 & 3) as u8)
    }
}

/// Property CRTO, Controller Ready Timeouts (Base §3.1.4.22), which controllers have from version
/// 2.0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyTimeouts(pub u32);

impl ReadyTimeouts {
    /// The property of a controller that is ready with its media within `with_media_ms`, rounded up
    /// to half seconds.
    pub const fn new(with_media_ms: u32) -> Self {
        let halves = with_media_ms.div_ceil(500);
        Self(if halves > 0xffff { 0xffff } else { halves })
    }

    /// CRWMT: until ready with media, in milliseconds.
    pub const fn with_media_ms(self) -> u32 {
        (self.0 & 0xffff) * 500
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities() {
        let cap = Capabilities(
            Capabilities::new(128, 7_300).0
                | Capabilities::NVM_COMMAND_SET
                | Capabilities::READY_WITH_MEDIA,
        );
        assert_eq!(cap.0, 1 << 59 | 1 << 37 | 15 << 24 | 127);
        assert_eq!(
            (cap.queue_entries(), cap.timeout_ms(), cap.page_bytes_min()),
            (128, 7_500, 4096)
        );
        assert!(cap.has(Capabilities::NVM_COMMAND_SET) && !cap.has(Capabilities::COMMAND_SETS));
        assert_eq!(Capabilities(0).queue_entries(), 2);
        assert_eq!(Capabilities::new(2, u32::MAX).timeout_ms(), 127_500);
        assert_eq!(Capabilities(2 << 48).page_bytes_min(), 16384);
    }

    #[test]
    fn configuration_of_a_linux_host() {
        // EN, CSS 0, MPS 0, AMS 0, IOSQES 6, IOCQES 4.
        let cc = Configuration(0x0046_0001);
        assert_eq!(cc.0, Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES);
        assert_eq!((cc.submission_entry_size(), cc.completion_entry_size()), (6, 4));
        assert_eq!(
            (cc.enabled(), cc.command_sets(), cc.page_size(), cc.arbitration(), cc.shutdown()),
            (true, 0, 0, 0, 0)
        );
        assert_eq!(
            Configuration(Configuration::ALL_COMMAND_SETS | 3 << 7 | 7 << 11).command_sets(),
            6
        );
        assert_eq!(Configuration(3 << 7).page_size(), 3);
        assert_eq!(Configuration(7 << 11).arbitration(), 7);
        assert_eq!(Configuration(Configuration::SHUTDOWN_ABRUPT).shutdown(), 2);
    }

    #[test]
    fn status_and_versions() {
        let status = ControllerStatus::new(true, false, ShutdownStatus::COMPLETE);
        assert_eq!(status.0, 0x9);
        assert!(status.ready() && !status.fatal());
        assert_eq!(status.shutdown(), ShutdownStatus::COMPLETE);
        assert!(ControllerStatus(u32::MAX).fatal());
        assert_eq!(Version::V2_0.to_string(), "2.0");
        assert_eq!(Version(0x0001_0201).to_string(), "1.2.1");
        assert_eq!(ReadyTimeouts::new(7_200).0, 15);
        assert_eq!(ReadyTimeouts(15).with_media_ms(), 7_500);
    }

    #[test]
    fn sizes_of_properties() {
        assert_eq!(PropertyOffset::CAP.bytes(), Some(8));
        assert_eq!(PropertyOffset::CC.bytes(), Some(4));
        assert_eq!(PropertyOffset(0x24).bytes(), None);
    }
}
