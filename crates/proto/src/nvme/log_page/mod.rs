//! Log pages (Base §5.16.1): their identifiers and the data structures of those that weft serves or
//! reads.

mod ana;
mod cross_reset;
mod discovery;
#[cfg(test)]
mod tests;

pub use ana::{AnaGroupDescriptor, AnaGroups, AnaHeader, AnaNamespaces, AnaState};
pub use cross_reset::{CrossResetEntry, CrossResetHeader, CrossResetStatus};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, SecureChannelNeed, SubsystemType, TransportType,
};

use super::types::{Nsid, Qid};
use super::wire::{Ascii, codes, structure};

codes! {
    /// Log page identifier: dword 10 bits 7:0 of Get Log Page (Base, "Get Log Page – Log Page
    /// Identifiers").
    pub struct LogPageId(u8) {
        0x00 SUPPORTED_PAGES "Supported Log Pages";
        0x01 ERROR_INFORMATION "Error Information";
        0x02 SMART "SMART / Health Information";
        0x03 FIRMWARE_SLOT "Firmware IoSlot Information";
        0x04 CHANGED_NAMESPACES "Changed Namespace List";
        0x05 COMMAND_EFFECTS "Commands Supported and Effects";
        0x06 SELF_TEST "Device Self-test";
        0x07 TELEMETRY_HOST "Telemetry Host-Initiated";
        0x08 TELEMETRY_CONTROLLER "Telemetry Controller-Initiated";
        0x09 ENDURANCE_GROUP "Endurance Group Information";
        0x0a PREDICTABLE_LATENCY "Predictable Latency Per NVM Set";
        0x0b PREDICTABLE_LATENCY_EVENTS "Predictable Latency Event Aggregate";
        0x0c ANA "Asymmetric Namespace Access";
        0x0d PERSISTENT_EVENT "Persistent Event Log";
        0x0e LBA_STATUS "LBA Status Information";
        0x0f ENDURANCE_GROUP_EVENTS "Endurance Group Event Aggregate";
        0x10 MEDIA_UNIT_STATUS "Media Unit Status";
        0x11 CAPACITY_CONFIGURATIONS "Supported Capacity Configuration List";
        0x12 FEATURE_EFFECTS "Feature Identifiers Supported and Effects";
        0x13 MI_COMMAND_EFFECTS "NVMe-MI Commands Supported and Effects";
        0x14 LOCKDOWN "Command and Feature Lockdown";
        0x15 BOOT_PARTITION "Boot Partition";
        0x16 ROTATIONAL_MEDIA "Rotational Media Information";
        0x1e CROSS_CONTROLLER_RESET "Cross-Controller Reset";
        0x1f LOST_HOST_COMMUNICATION "Lost Host Communication";
        0x70 DISCOVERY "Discovery";
        0x80 RESERVATION_NOTIFICATION "Reservation Notification";
        0x81 SANITIZE_STATUS "Sanitize Status";
    }
}

structure! {
    /// Supported Log Pages log page (Base §5.16.1.1): a descriptor per log page identifier.
    pub struct SupportedLogPages[1024] {
        /// Bit 0 [`Self::SUPPORTED`]; the upper half is specific to the log page.
        0 pages: [u32; 256],
    }
}

impl SupportedLogPages {
    /// The page can be read.
    pub const SUPPORTED: u32 = 1;
}

structure! {
    /// An entry of the Error Information log page (Base §5.16.1.2).
    pub struct ErrorEntry[64] {
        /// Error Count: identifies the error; 0 marks an unused entry.
        0 error_count: u64,
        /// Submission Queue ID; FFFFh where the error belongs to no command.
        8 sq_id: u16,
        /// Command ID; FFFFh where the error belongs to no command.
        10 cid: u16,
        /// Status Field in bits 15:1, as in a completion; bit 0 is the phase tag.
        12 status_field: u16,
        /// Parameter Error Location: byte of the command in bits 7:0, bit in bits 10:8; FFFFh where
        /// none.
        14 parameter_location: u16,
        /// First logical block with the error.
        16 lba: u64,
        /// Namespace.
        24 nsid: Nsid,
        /// Vendor Specific Information Available: a log page identifier, or 0.
        28 vendor_page: u8,
        /// Transport Type, where the error is the transport's.
        29 trtype: TransportType,
        /// Command Set Indicator.
        30 csi: u8,
        /// Opcode.
        31 opcode: u8,
        /// Command Specific Information.
        32 command_specific: u64,
        /// Transport Type Specific Information.
        40 transport_specific: u16,
        /// Log Page Version.
        63 version: u8,
    }
}

impl ErrorEntry {
    /// The queue of the command, where there is one.
    pub fn queue(&self) -> Option<Qid> {
        (self.sq_id != 0xffff).then_some(Qid(self.sq_id))
    }
}

structure! {
    /// SMART / Health Information log page (Base §5.16.1.3).
    pub struct SmartLog[512] {
        /// Critical Warning, a bit each.
        0 critical_warning: u8,
        /// Composite Temperature, kelvin.
        1 temperature: u16,
        /// Available Spare, percent.
        3 available_spare: u8,
        /// Available Spare Threshold, percent.
        4 available_spare_threshold: u8,
        /// Percentage Used, may exceed 100.
        5 percentage_used: u8,
        /// Endurance Group Critical Warning Summary.
        6 endurance_warning: u8,
        /// Data Units Read, in units of 1000 × 512 bytes, rounded up.
        32 data_units_read: u128,
        /// Data Units Written, in the same unit.
        48 data_units_written: u128,
        /// Host Read Commands.
        64 host_reads: u128,
        /// Host Write Commands.
        80 host_writes: u128,
        /// Controller Busy Time, minutes.
        96 busy_minutes: u128,
        /// Power Cycles.
        112 power_cycles: u128,
        /// Power On Hours.
        128 power_on_hours: u128,
        /// Unsafe Shutdowns.
        144 unsafe_shutdowns: u128,
        /// Media and Data Integrity Errors.
        160 media_errors: u128,
        /// Number of Error Information Log Entries over the life of the controller.
        176 error_entries: u128,
        /// Warning Composite Temperature Time, minutes.
        192 warning_temperature_minutes: u32,
        /// Critical Composite Temperature Time, minutes.
        196 critical_temperature_minutes: u32,
        /// Temperature Sensors 1 to 8, kelvin; 0 means none.
        200 temperature_sensors: [u16; 8],
        /// Thermal Management Temperature 1 Transition Count.
        216 thermal_1_transitions: u32,
        /// Thermal Management Temperature 2 Transition Count.
        220 thermal_2_transitions: u32,
        /// Total Time For Thermal Management Temperature 1, seconds.
        224 thermal_1_seconds: u32,
        /// Total Time For Thermal Management Temperature 2, seconds.
        228 thermal_2_seconds: u32,
    }
}

impl SmartLog {
    /// Critical Warning: a temperature is beyond its threshold.
    pub const WARNING_TEMPERATURE: u8 = 1 << 1;
}

structure! {
    /// Firmware IoSlot Information log page (Base §5.16.1.4).
    pub struct FirmwareSlotLog[512] {
        /// Active Firmware Info: slot in use in bits 2:0, slot after the next reset in bits 6:4.
        0 afi: u8,
        /// Firmware Revision of slots 1 to 7.
        8 frs: [Ascii<8>; 7],
    }
}

structure! {
    /// Commands Supported and Effects log page (Base §5.16.1.6): a descriptor per opcode.
    pub struct EffectsLog[4096] {
        /// Admin commands.
        0 admin: [u32; 256],
        /// I/O commands.
        1024 io: [u32; 256],
    }
}

impl EffectsLog {
    /// CSUPP: the command is supported.
    pub const SUPPORTED: u32 = 1;
    /// LBCC: it may change the content of logical blocks.
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// NCC: it may change the capabilities of a namespace.
    pub const NAMESPACE_CAPABILITY_CHANGE: u32 = 1 << 2;
    /// NIC: it may change which namespaces there are.
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
    /// CCC: it may change the capabilities of the controller.
    pub const CONTROLLER_CAPABILITY_CHANGE: u32 = 1 << 4;
}

structure! {
    /// Feature Identifiers Supported and Effects log page (Base §5.16.1.18): a descriptor per
    /// feature identifier.
    pub struct FeatureEffectsLog[1024] {
        /// Bits as below.
        0 features: [u32; 256],
    }
}

impl FeatureEffectsLog {
    /// FSUPP: the feature is supported.
    pub const SUPPORTED: u32 = 1;
    /// UDCC: setting it may change user data.
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// NCC: setting it may change the capabilities of a namespace.
    pub const NAMESPACE_CAPABILITY_CHANGE: u32 = 1 << 2;
    /// NIC: setting it may change which namespaces there are.
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
    /// CCC: setting it may change the capabilities of the controller.
    pub const CONTROLLER_CAPABILITY_CHANGE: u32 = 1 << 4;
    /// FSP, Feature Identifier Scope: a namespace.
    pub const SCOPE_NAMESPACE: u32 = 1 << 20;
    /// FSP: a controller.
    pub const SCOPE_CONTROLLER: u32 = 1 << 21;
}
