//! What is read from a configuration of another target.

/// A configuration from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Name of the iSCSI target; `None`: nothing is said of it.
    pub iscsi_name: Option<String>,
    /// Subsystems.
    pub subsystems: Vec<ImportedSubsystem>,
    /// What could not be carried over, each in a sentence.
    pub left: Vec<String>,
}

/// A subsystem from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedSubsystem {
    /// NQN.
    pub nqn: String,
    /// Hosts that may connect; `None`: any.
    pub hosts: Option<Vec<String>>,
    /// iSCSI initiators that may log in; `None`: any.
    pub initiators: Option<Vec<String>>,
    /// Namespaces.
    pub namespaces: Vec<ImportedNamespace>,
}

/// A namespace from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedNamespace {
    /// Identifier.
    pub nsid: u64,
    /// Source URL.
    pub source: String,
    /// Identities, as text.
    pub uuid: Option<String>,
    /// See above.
    pub nguid: Option<String>,
    /// See above.
    pub eui64: Option<String>,
    /// Hosts that see it; `None`: all.
    pub hosts: Option<Vec<String>>,
    /// iSCSI initiators that see it; `None`: all.
    pub initiators: Option<Vec<String>>,
    /// Refuses writes.
    pub read_only: bool,
}
