//! The machine of a study, and its load during the study.

use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Host name.
    pub name: String,
    /// CPU model.
    pub cpu: String,
    /// Cores available to the study.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Operating system and version.
    pub system: String,
    /// Frequency governors of the cores; empty if the system has none.
    #[serde(default)]
    pub governors: Vec<String>,
    /// The kernel's measures against faults of the processor that cost time: `spectre_v2: …`.
    #[serde(default)]
    pub mitigations: Vec<String>,
    /// Network interfaces that are up.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Hypervisor, if the machine says that it is virtual.
    #[serde(default)]
    pub hypervisor: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Driver; none for virtual ones.
    pub driver: Option<String>,
    /// Longest packet, bytes.
    pub mtu: Option<u32>,
    /// Rate of the link, Mbit/s.
    pub mbits: Option<u32>,
}

/// The load of the machine during a study, as far as the system reports it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conditions {
    /// Load average of the last minute before the study, in CPUs.
    pub load_before: Option<f64>,
    /// The same at the end, including the load of the study.
    pub load_after: Option<f64>,
    /// Fraction of the time of the CPUs that the study could use, 0 to 1, that the hypervisor gave
    /// to others although this machine needed it (steal).
    pub steal: Option<f64>,
    /// The same for what other programs of this machine took: all but the load generator, the
    /// targets and bare TCP.
    #[serde(default)]
    pub others: Option<f64>,
    /// Lowest and highest frequency of the cores that was seen at the start of a measurement, MHz.
    #[serde(default)]
    pub mhz: Option<(f64, f64)>,
}
