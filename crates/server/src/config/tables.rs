//! The tables of a configuration file, as they are written. The comments are the descriptions in
//! the JSON schema.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use toml::Spanned;

/// A value and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct At<T>(Spanned<T>);

impl<T> At<T> {
    /// Its bytes in the text.
    pub fn place(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.get_ref()
    }
}

#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for At<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// A text and its place.
pub type Text = At<String>;

/// Configuration of `weft serve --config`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    /// Name of the server, for --control of the commands that manage it.
    pub name: Option<Text>,
    /// URLs to listen at, as for --listen: nvme+tcp://ADDR:PORT, iscsi://ADDR:PORT,
    /// nbd://ADDR:PORT, nbds://ADDR:PORT, nbd+unix:///?socket=PATH.
    pub listen: Vec<Text>,
    /// The process: its event loops and memory.
    pub server: ServerTable,
    /// Options of connections to remote sources: those of the command line without the dashes in
    /// front, as in keep-alive-tmo = 5.
    #[cfg_attr(test, schemars(with = "super::example::tests::ConnectTable"))]
    pub connect: BTreeMap<Text, At<toml::Value>>,
    /// The iSCSI target.
    pub iscsi: IscsiTable,
    /// Certificates, for nbds:// URLs, and pre-shared keys, for NVMe/TCP.
    pub tls: TlsTable,
    /// ANA states of groups of namespaces. A group without one is optimized.
    pub ana: Vec<AnaTable>,
    /// Limits of single hosts over all sources together.
    pub host_limit: Vec<HostLimitTable>,
    /// Identifiers of NVMe hosts. Nobody else may use them where hosts prove their names.
    pub host_identifier: Vec<HostIdentifierTable>,
    /// Authentication of NVMe hosts for discovery; by default none is needed.
    pub discovery_authentication: Option<AuthenticationTable>,
    /// NVMe subsystems. The first one is the iSCSI target, too.
    pub subsystem: Vec<SubsystemTable>,
}

/// The process.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ServerTable {
    /// Event loops; by default one for each core that the process may use.
    pub threads: Option<At<u16>>,
    /// Cores to pin the event loops to, as in "0,2-3".
    pub cpus_allowed: Option<Text>,
    /// Never sleep: lower latency, but one busy core for each event loop.
    pub poll: bool,
    /// I/O method for files: "auto", "uring" or "threads".
    pub disk_io: Option<Text>,
    /// Payload memory of each event loop, as in "256MiB".
    pub pool: Option<Text>,
    /// Time within which a file or disk of this machine must complete an operation, as in "20s",
    /// the default; "0s": no limit.
    pub disk_timeout: Option<Text>,
    /// Log each command that takes this long, as in "10ms", with its stages; by default none.
    pub slow: Option<Text>,
    /// Connections that each protocol accepts at most, 16 to 65000; 4096 by default. One address
    /// gets at most three quarters of them.
    pub max_connections: Option<At<u32>>,
    /// End with status 13 when a source is permanently lost.
    pub exit_on_loss: bool,
    /// Identifiers of this process's NVMe controllers, as in "1-1000"; processes that serve one
    /// subsystem need ranges that do not overlap.
    pub cntlid_range: Option<Text>,
    /// Serve the sources together with other processes, as controllers of one subsystem; needs
    /// cntlid_range.
    pub shared: Option<At<bool>>,
}

/// The iSCSI target.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct IscsiTable {
    /// Name of the target; by default one that is generated once and kept.
    pub name: Option<Text>,
    /// CHAP users of initiators; without any there is no authentication.
    pub user: Vec<UserTable>,
    /// Mutual CHAP: the user that the target is.
    pub target: Option<TargetUserTable>,
}

/// A CHAP user.
#[derive(Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UserTable {
    /// Name.
    pub name: String,
    /// File with the secret; a relative path begins at the configuration file.
    pub secret_file: At<PathBuf>,
    /// Initiator names that this user may log in with; by default the first ones that it uses.
    #[serde(default)]
    pub initiators: Vec<Text>,
}

/// The CHAP user that a target is.
#[derive(Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TargetUserTable {
    /// Name.
    pub name: String,
    /// File with the secret; a relative path begins at the configuration file.
    pub secret_file: At<PathBuf>,
}

/// Certificate files in PEM format, and pre-shared keys; relative paths begin at the configuration
/// file.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TlsTable {
    /// The server's certificate.
    pub cert_file: Option<At<PathBuf>>,
    /// Its private key.
    pub cert_key_file: Option<At<PathBuf>>,
    /// CA certificates; with them clients must have a certificate.
    pub ca_file: Option<At<PathBuf>>,
    /// Pre-shared keys for NVMe/TCP, one a line, as for --tls-key-file; with them NVMe/TCP is
    /// accepted with TLS only.
    pub psk_file: Option<At<PathBuf>>,
    /// The kernel may encrypt, if it can; otherwise weft does in user space.
    pub kernel: Option<bool>,
    /// NVMe/TCP hosts authenticate, and then use TLS with keys that come of that (secure channel
    /// concatenation), as with --concat.
    pub concat: bool,
}

/// The ANA state of a group of namespaces.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnaTable {
    /// The group.
    pub group: At<u32>,
    /// "optimized", "non-optimized", "inaccessible" or "persistent-loss".
    pub state: Text,
    /// For hosts that come by this listener only, as ADDR:PORT.
    pub listener: Option<Text>,
}

/// Limit of a host over all sources together.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostLimitTable {
    /// The host: a host NQN, an iSCSI initiator name, or the address of an NBD client.
    pub host: Text,
    /// Operations per second, as in "10k".
    pub iops: Option<Text>,
    /// Bytes per second, as in "100MB".
    pub bw: Option<Text>,
}

/// The identifier of an NVMe host, by which it reserves. Changes take effect for hosts that connect
/// from then on.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostIdentifierTable {
    /// The host, by its NQN.
    pub host: Text,
    /// Its identifier (HOSTID), a UUID as in /etc/nvme/hostid.
    pub id: Text,
}

/// Authentication of NVMe hosts (DH-HMAC-CHAP). Changes take effect for hosts that connect or
/// authenticate from then on.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AuthenticationTable {
    /// The hosts and their secrets.
    pub host: Vec<HostSecretTable>,
    /// File with the secret by which controllers prove to hosts who they are; a relative path
    /// begins at the configuration file.
    pub ctrl_secret_file: Option<At<PathBuf>>,
    /// Hash functions that are accepted, the preferred one first; by default "sha256", "sha384" and
    /// "sha512".
    pub hashes: Vec<Text>,
    /// Diffie-Hellman groups that are accepted, the preferred one first; by default "ffdhe2048",
    /// "ffdhe3072" and "ffdhe4096".
    pub dhgroups: Vec<Text>,
}

/// The secrets of a host.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostSecretTable {
    /// Its NQN; without one the secrets are those of all hosts that are not named.
    pub nqn: Option<Text>,
    /// Files with its secret: one, or several while it is changed; relative paths begin at the
    /// configuration file.
    pub secret_files: Vec<At<PathBuf>>,
}

/// A subsystem.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubsystemTable {
    /// Its NQN.
    pub nqn: Text,
    /// NQNs of the hosts that may connect; by default any host. An empty list lets nobody in.
    pub hosts: Option<Vec<Text>>,
    /// Names of the iSCSI initiators that may log in; by default any initiator.
    pub initiators: Option<Vec<Text>>,
    /// Serial number that NVMe hosts see, up to 20 characters; by default one made of the NQN.
    pub serial: Option<Text>,
    /// Model number that NVMe hosts see, up to 40 characters; by default "weft".
    pub model: Option<Text>,
    /// I/O queues that an NVMe controller may have at most, 1 to 1024; 128 by default.
    pub max_queues: Option<At<u32>>,
    /// Authentication of NVMe hosts; by default none is needed.
    pub authentication: Option<AuthenticationTable>,
    /// Its namespaces.
    #[serde(default)]
    pub namespace: Vec<NamespaceTable>,
}

/// A namespace: a logical unit for iSCSI, an export for NBD.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamespaceTable {
    /// Namespace identifier, from 1. The LUN of iSCSI is one less.
    pub nsid: At<u32>,
    /// Source URL, as for weft serve: file:/srv/disk.img, /dev/nvme0n1, ram:1GiB,
    /// nvme+tcp://HOST/NQN, iscsi://HOST/IQN/LUN, …
    pub source: Text,
    /// URLs of further paths to a remote source, or discover, as for --path.
    #[serde(default)]
    pub paths: Vec<Text>,
    /// Name for NBD clients; without one it is not an NBD export.
    pub name: Option<Text>,
    /// UUID that hosts know the data by; by default that of the source.
    pub uuid: Option<Text>,
    /// NGUID, 32 hexadecimal digits; by default the UUID.
    pub nguid: Option<Text>,
    /// EUI-64, 16 hexadecimal digits; by default none.
    pub eui64: Option<Text>,
    /// Names by which iSCSI initiators identify it, for disks that had other names before.
    #[serde(default)]
    pub scsi: ScsiTable,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// Size to serve at most, as in "10GiB"; by default all of the source.
    pub size: Option<Text>,
    /// ANA group, from 1, the default.
    pub ana_group: Option<At<u32>>,
    /// Hosts can reserve it, the default. Switch it off where others serve the same data, whose
    /// hosts would not be kept out.
    pub reservations: Option<bool>,
    /// NQNs of the hosts that see it, of those that may connect; by default all.
    pub hosts: Option<Vec<Text>>,
    /// Names of the iSCSI initiators that see it, of those that may log in; by default all.
    pub initiators: Option<Vec<Text>>,
}

/// Names of a logical unit.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScsiTable {
    /// Unit serial number (VPD page 80h), up to 36 characters; by default that of the source, or 16
    /// digits of the UUID.
    pub serial: Option<Text>,
    /// Vendor, up to 8 characters; by default "weft".
    pub vendor: Option<Text>,
    /// Product, up to 16 characters; by default the model of the source, or "virtual disk".
    pub product: Option<Text>,
    /// NAA identifier, 16 or 32 hexadecimal digits; by default one made of the UUID.
    pub naa: Option<Text>,
    /// T10 vendor ID based designator, up to 64 characters; by default vendor, product and serial
    /// number.
    pub t10_id: Option<Text>,
}
