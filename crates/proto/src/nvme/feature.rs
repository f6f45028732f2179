//! Feature identifiers (Base §5.27.1, NVM §4.1.3), values of the features that both ends use, and
//! asynchronous events.

use super::wire::codes;

codes! {
    /// Feature identifier: Get Features and Set Features, dword 10 bits 7:0 (Base, "Feature
    /// Identifiers").
    pub struct FeatureId(u8) {
        0x01 ARBITRATION "Arbitration";
        0x02 POWER_MANAGEMENT "Power Management";
        0x03 LBA_RANGE_TYPE "LBA Range Type";
        0x04 TEMPERATURE_THRESHOLD "Temperature Threshold";
        0x05 ERROR_RECOVERY "Error Recovery";
        0x06 VOLATILE_WRITE_CACHE "Volatile Write Cache";
        0x07 NUMBER_OF_QUEUES "Number of Queues";
        0x08 INTERRUPT_COALESCING "Interrupt Coalescing";
        0x09 INTERRUPT_VECTOR_CONFIGURATION "Interrupt Vector Configuration";
        0x0a WRITE_ATOMICITY_NORMAL "Write Atomicity Normal";
        0x0b ASYNC_EVENT_CONFIGURATION "Asynchronous Event Configuration";
        0x0c AUTONOMOUS_POWER_STATE_TRANSITION "Autonomous Power State Transition";
        0x0d HOST_MEMORY_BUFFER "Host Memory Buffer";
        0x0e TIMESTAMP "Timestamp";
        0x0f KEEP_ALIVE_TIMER "Keep Alive Timer";
        0x10 HOST_CONTROLLED_THERMAL_MANAGEMENT "Host Controlled Thermal Management";
        0x11 NON_OPERATIONAL_POWER_STATE "Non-Operational Power State Config";
        0x12 READ_RECOVERY_LEVEL "Read Recovery Level Config";
        0x13 PREDICTABLE_LATENCY_CONFIG "Predictable Latency Mode Config";
        0x14 PREDICTABLE_LATENCY_WINDOW "Predictable Latency Mode Window";
        0x15 LBA_STATUS_INTERVAL "LBA Status Information Attributes";
        0x16 HOST_BEHAVIOR_SUPPORT "Host Behavior Support";
        0x17 SANITIZE_CONFIG "Sanitize Config";
        0x18 ENDURANCE_GROUP_EVENT_CONFIGURATION "Endurance Group Event Configuration";
        0x19 COMMAND_SET_PROFILE "I/O Command Set Profile";
        0x7d ENHANCED_CONTROLLER_METADATA "Enhanced Controller Metadata";
        0x7e CONTROLLER_METADATA "Controller Metadata";
        0x7f NAMESPACE_METADATA "Namespace Metadata";
        0x80 SOFTWARE_PROGRESS_MARKER "Software Progress Marker";
        0x81 HOST_IDENTIFIER "Host Identifier";
        0x82 RESERVATION_NOTIFICATION_MASK "Reservation Notification Mask";
        0x83 RESERVATION_PERSISTENCE "Reservation Persistence";
        0x84 NAMESPACE_WRITE_PROTECTION "Namespace Write Protection Config";
    }
}

codes! {
    /// Select field of Get Features, dword 10 bits 10:8 (Base §5.15).
    pub struct FeatureSelect(u8) {
        0 CURRENT "Current";
        1 DEFAULT "Default";
        2 SAVED "Saved";
        3 SUPPORTED_CAPABILITIES "Supported Capabilities";
    }
}

codes! {
    /// Asynchronous event type: completion dword 0 bits 2:0 (Base §5.2).
    pub struct AsyncEventType(u8) {
        0 ERROR "Error status";
        1 HEALTH "SMART / Health status";
        2 NOTICE "Notice";
        3 IMMEDIATE "Immediate";
        4 ONE_SHOT "One-Shot";
        6 COMMAND_SET "I/O Command Set specific status";
        7 VENDOR "Vendor specific";
    }
}

codes! {
    /// Asynchronous event information when the type is Notice: completion dword 0 bits 15:8 (Base,
    /// "Asynchronous Event Information – Notice").
    pub struct AsyncNotice(u8) {
        0x00 NAMESPACE_ATTRIBUTE_CHANGED "Namespace Attribute Changed";
        0x01 FIRMWARE_ACTIVATION_STARTING "Firmware Activation Starting";
        0x02 TELEMETRY_LOG_CHANGED "Telemetry Log Changed";
        0x03 ANA_CHANGE "Asymmetric Namespace Access Change";
        0x04 PREDICTABLE_LATENCY_CHANGE "Predictable Latency Event Aggregate Log Change";
        0x05 LBA_STATUS_ALERT "LBA Status Information Alert";
        0x06 ENDURANCE_GROUP_CHANGE "Endurance Group Event Aggregate Log Page Change";
        0x07 NORMAL_SUBSYSTEM_SHUTDOWN "Normal NVM Subsystem Shutdown";
        0xf0 DISCOVERY_LOG_CHANGE "Discovery Log Page Change";
        0xf4 CROSS_CONTROLLER_RESET_COMPLETED "Cross-Controller Reset Completed";
    }
}

/// Bits that the field OAES of Identify Controller and the feature Asynchronous Event Configuration
/// share (Base, "Asynchronous Event Configuration").
pub struct AsyncEventBits;

impl AsyncEventBits {
    /// Namespace Attribute Notices.
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// Asymmetric Namespace Access Change Notices.
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Normal NVM Subsystem Shutdown.
    pub const SUBSYSTEM_SHUTDOWN: u32 = 1 << 15;
    /// Cross-Controller Reset Completed Notices.
    pub const CROSS_CONTROLLER_RESET: u32 = 1 << 20;
    /// Discovery Log Page Change Notification.
    pub const DISCOVERY_LOG_CHANGE: u32 = 1 << 31;
}

/// Result of a completed Asynchronous Event Request: dword 0 of the completion (Base §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Type, bits 2:0.
    pub kind: AsyncEventType,
    /// Information, bits 15:8; its meaning depends on the type.
    pub information: u8,
    /// Log page whose reading makes the controller report this type of event again, bits 23:16.
    pub log_page: super::log_page::LogPageId,
}

impl AsyncEvent {
    /// Reads dword 0.
    pub const fn decode(dword0: u32) -> Self {
        Self {
            kind: AsyncEventType((dword0 & 7) as u8),
            information: (dword0 >> 8) as u8,
            log_page: super::log_page::LogPageId((dword0 >> 16) as u8),
        }
    }

    /// Dword 0.
    pub const fn encode(self) -> u32 {
        self.kind.0 as u32 & 7 | (self.information as u32) << 8 | (self.log_page.0 as u32) << 16
    }

    /// The information, if this is a notice.
    pub fn notice(self) -> Option<AsyncNotice> {
        (self.kind == AsyncEventType::NOTICE).then_some(AsyncNotice(self.information))
    }
}

/// Value of the feature Number of Queues (Base §5.27.1.5): how many I/O submission and completion
/// queues, at least 1 of each, which the wire form counts from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// I/O submission queues, 1 to 65536 (65536 is not a legal request).
    pub submission: u32,
    /// I/O completion queues, counted in the same way.
    pub completion: u32,
}

impl QueueCounts {
    /// Reads dword 11 of Set Features or dword 0 of its completion.
    pub const fn decode(dword: u32) -> Self {
        Self { submission: (dword & 0xffff) + 1, completion: (dword >> 16) + 1 }
    }

    /// The dword; counts beyond the range of the field are cut to it.
    pub fn encode(self) -> u32 {
        let field = |count: u32| count.clamp(1, 0x1_0000) - 1;
        field(self.submission) | field(self.completion) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::log_page::LogPageId;

    #[test]
    fn async_event_bytes() {
        let event = AsyncEvent::decode(0x0004_0002);
        assert_eq!(event.notice(), Some(AsyncNotice::NAMESPACE_ATTRIBUTE_CHANGED));
        assert_eq!(event.log_page, LogPageId::CHANGED_NAMESPACES);
        assert_eq!(event.encode(), 0x0004_0002);
        assert_eq!(
            AsyncEvent::decode(0x0070_f002).notice(),
            Some(AsyncNotice::DISCOVERY_LOG_CHANGE)
        );
        assert_eq!(AsyncEvent::decode(0x0001_0300).notice(), None);
    }

    #[test]
    fn queue_counts_are_zero_based_on_the_wire() {
        assert_eq!(QueueCounts { submission: 1, completion: 4 }.encode(), 0x0003_0000);
        assert_eq!(
            QueueCounts::decode(0xffff_ffff),
            QueueCounts { submission: 0x1_0000, completion: 0x1_0000 }
        );
        assert_eq!(QueueCounts { submission: 0, completion: 1 << 20 }.encode(), 0xffff_0000);
    }

    #[test]
    fn unknown_codes_survive() {
        assert_eq!(FeatureId(0xc5).to_string(), "0xc5");
        assert_eq!(FeatureId::KEEP_ALIVE_TIMER.to_string(), "Keep Alive Timer");
    }
}
