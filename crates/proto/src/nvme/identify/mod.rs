//! The data structures of the Identify command (Base §5.17.2, NVM §4.1.5), with the fields that one
//! of the two ends needs, the specification's names and offsets.

mod controller;
mod list;
mod namespace;
#[cfg(test)]
mod tests;

pub use controller::{ControllerType, IdentifyController, IdentifyNvmController, PowerState};
pub use list::{CommandSetCombinations, ControllerList, NamespaceDescriptors, NamespaceList};
pub use namespace::{
    IdentifyIndependentNamespace, IdentifyNamespace, IdentifyNvmNamespace, LbaFormat,
};

use super::wire::codes;

codes! {
    /// Controller or Namespace Structure: dword 10 bits 7:0 of Identify (Base, "Identify – CNS
    /// Values").
    pub struct Cns(u8) {
        0x00 NAMESPACE "Namespace";
        0x01 CONTROLLER "Controller";
        0x02 ACTIVE_NAMESPACES "Active Namespace ID list";
        0x03 NAMESPACE_DESCRIPTORS "Namespace Identification Descriptor list";
        0x04 NVM_SETS "NVM Set List";
        0x05 COMMAND_SET_NAMESPACE "I/O Command Set specific Namespace";
        0x06 COMMAND_SET_CONTROLLER "I/O Command Set specific Controller";
        0x07 COMMAND_SET_ACTIVE_NAMESPACES "I/O Command Set specific Active Namespace ID list";
        0x08 INDEPENDENT_NAMESPACE "I/O Command Set independent Namespace";
        0x10 ALLOCATED_NAMESPACES "Allocated Namespace ID list";
        0x11 ALLOCATED_NAMESPACE "Allocated Namespace";
        0x12 NAMESPACE_CONTROLLERS "Controller List of a namespace";
        0x13 CONTROLLERS "Controller List of the subsystem";
        0x14 PRIMARY_CONTROLLER "Primary Controller Capabilities";
        0x15 SECONDARY_CONTROLLERS "Secondary Controller list";
        0x16 NAMESPACE_GRANULARITY "Namespace Granularity List";
        0x17 UUID_LIST "UUID List";
        0x18 DOMAINS "Domain List";
        0x19 ENDURANCE_GROUPS "Endurance Group List";
        0x1a COMMAND_SET_ALLOCATED_NAMESPACES "I/O Command Set specific Allocated Namespace ID list";
        0x1b COMMAND_SET_ALLOCATED_NAMESPACE "I/O Command Set specific Allocated Namespace";
        0x1c COMMAND_SETS "I/O Command Set data structure";
    }
}

codes! {
    /// I/O Command Set Identifier (Base, "I/O Command Set Identifiers").
    pub struct Csi(u8) {
        0 NVM "NVM Command Set";
        1 KEY_VALUE "Key Value Command Set";
        2 ZONED "Zoned Namespace Command Set";
    }
}

/// Bytes of every data structure of Identify.
pub const IDENTIFY_BYTES: usize = 4096;
