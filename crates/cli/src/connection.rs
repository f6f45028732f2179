//! The peer to connect to and the connection options: a URL, or nvme-cli's flags.

use crate::args::dhchap::DhchapArgs;
use crate::args::iscsi::IscsiArgs;
use crate::args::path::PathArgs;
use crate::help::headings::CONNECTION;
use crate::process::exit::Failure;
use clap::{Args, ValueEnum};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use weft_block::{ErrorKind, meant, units};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::source::HostSecrets;
use weft_endpoint::url::{HostPort, ISCSI, ISCSI_PORT, IscsiUrl, NvmeTransport, NvmeUrl};
use weft_endpoint::{ConnectOptions, Control, TlsFiles, TlsPsk};
use weft_proto::nvme::types::Nsid;
use weft_server::psk::{self, WantedPsk};
use weft_server::secret::held;
use weft_server::values::parse_nqn;

/// A subsystem, as a URL or as nvme-cli's flags.
#[derive(Args, Clone, Debug)]
pub struct Address {
    /// The URL of a subsystem or namespace.
    #[arg(help = "nvme+tcp://HOST[:PORT]/NQN[/NSID], or the same with nvme+rdma", conflicts_with_all = ["traddr", "nqn"])]
    url: Option<String>,
    /// Transport type
    #[arg(short = 't', long, value_enum, default_value_t = Transport::Tcp)]
    transport: Transport,
    /// Transport address: host name or IP address
    #[arg(short = 'a', long)]
    traddr: Option<String>,
    /// Transport service identifier: port
    #[arg(short = 's', long)]
    trsvcid: Option<u16>,
    /// Subsystem NQN
    #[arg(short = 'n', long)]
    nqn: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe over RDMA.
    Rdma,
}

impl Address {
    /// Returns whether no address is given.
    pub fn is_missing(&self) -> bool {
        self.url.is_none() && self.traddr.is_none()
    }

    /// The URL of the device: as given, or made from nvme-cli's flags.
    pub fn device_url(&self) -> Result<String, Failure> {
        match &self.url {
            Some(url) => Ok(url.clone()),
            None => Ok(self.url()?.to_string()),
        }
    }

    /// The given URL, if it is that of an iSCSI target or address.
    pub fn iscsi_url(&self) -> Result<Option<IscsiUrl>, Failure> {
        let url = self.url.as_ref().filter(|url| url.starts_with(ISCSI));
        Ok(url.map(|url| IscsiUrl::parse(url, ISCSI_PORT)).transpose()?)
    }

    /// The given URL or flags, as the URL of a subsystem.
    pub fn url(&self) -> Result<NvmeUrl, Failure> {
        self.parse(NvmeUrl::parse, NvmeTransport::port)
    }

    /// The given URL or flags, as the URL of a discovery subsystem.
    pub fn discovery_url(&self) -> Result<NvmeUrl, Failure> {
        self.parse(NvmeUrl::parse_discovery, NvmeTransport::discovery_port)
    }

    /// The URL at which to ask for a discovery subsystem, and a second one to try. If the address
    /// has no port, the first has the port of discovery, and the second that of subsystems, which
    /// weft and other targets without a discovery port use.
    pub fn discovery_urls(&self) -> Result<(NvmeUrl, Option<NvmeUrl>), Failure> {
        let (first, other) = (self.discovery_url()?, self.url()?);
        let other = (other != first).then_some(other);
        Ok((first, other))
    }

    fn parse(
        &self,
        parse: impl FnOnce(&str) -> Result<NvmeUrl, weft_block::Error>,
        default_port: impl FnOnce(NvmeTransport) -> u16,
    ) -> Result<NvmeUrl, Failure> {
        let transport = match self.transport {
            Transport::Tcp => NvmeTransport::Tcp,
            Transport::Rdma => NvmeTransport::Rdma,
        };
        if let Some(url) = &self.url {
            check_no_device(url)?;
            return Ok(parse(&with_scheme(url, transport))?);
        }
        let Some(host) = &self.traddr else {
            return Err(Failure::of(
                ErrorKind::Usage,
                "the address is missing: give nvme+tcp://HOST[:PORT]/NQN, or -a ADDR -s PORT and the NQN",
            ));
        };
        let subsystem = self.nqn.as_deref().map(parse_nqn).transpose()?;
        let port = self.trsvcid.unwrap_or_else(|| default_port(transport));
        let address = HostPort::new(host, port)?;
        Ok(NvmeUrl { transport, address, subsystem, nsid: None })
    }
}

/// A URL, to which `HOST[:PORT]` and what may follow it are made by a scheme.
fn with_scheme(url: &str, transport: NvmeTransport) -> Cow<'_, str> {
    match url.contains("://") || url.starts_with(['/', '.']) || meant(url).is_some() {
        true => url.into(),
        false => format!("{}{url}", transport.scheme()).into(),
    }
}

/// Devices of this system are not what these commands are about.
fn check_no_device(url: &str) -> Result<(), Failure> {
    if !url.starts_with("/dev/") {
        return Ok(());
    }
    let text = format!(
        "weft inspects targets over the network: give nvme+tcp://HOST[:PORT]/NQN; nvme-cli inspects {url}, a device of this system"
    );
    Err(Failure::of(ErrorKind::Usage, text))
}

/// Connection options, with nvme-cli's names.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// Host NQN [default: that of the system (/etc/nvme/hostnqn), otherwise generated once and
    /// kept]
    #[arg(short = 'q', long, help_heading = CONNECTION)]
    hostnqn: Option<String>,
    /// Host identifier (UUID)
    #[arg(short = 'I', long, help_heading = CONNECTION)]
    hostid: Option<String>,
    /// Enable header digests (CRC32C)
    #[arg(short = 'g', long, help_heading = CONNECTION)]
    hdr_digest: bool,
    /// Enable data digests (CRC32C)
    #[arg(short = 'G', long, help_heading = CONNECTION)]
    data_digest: bool,
    /// Number of I/O queues [default: one per job, or one per event loop of a server]
    #[arg(short = 'i', long, help_heading = CONNECTION)]
    nr_io_queues: Option<u16>,
    /// Entries of each I/O queue
    #[arg(short = 'Q', long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=1024), help_heading = CONNECTION)]
    queue_size: u16,
    /// Keep alive timeout in seconds; 0 disables it, which NVMe allows only with --failover=fast or
    /// --ctrl-loss-tmo=0
    #[arg(short = 'k', long, default_value_t = 5, help_heading = CONNECTION)]
    keep_alive_tmo: u32,
    /// Time limit for connecting
    #[arg(long, default_value = "5s", value_parser = units::parse_duration, help_heading = CONNECTION)]
    connect_timeout: Duration,
    /// NVMe/TCP with TLS 1.3 and a pre-shared key, and not without; for a server, of the
    /// connections that it accepts
    #[arg(long, help_heading = CONNECTION)]
    tls: bool,
    /// Pre-shared keys for --tls, one a line, in a file that others cannot read; weft gen-tls-key
    /// makes keys [default: those of --keyring]
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = CONNECTION)]
    tls_key_file: Option<PathBuf>,
    /// Keyring of Linux with the TLS PSKs [default: .nvme]
    #[arg(
        long,
        value_name = "NAME",
        requires = "tls",
        conflicts_with = "tls_key_file",
        help_heading = CONNECTION
    )]
    keyring: Option<String>,
    /// Encrypt in user space even where the kernel can
    #[arg(long, help_heading = CONNECTION)]
    no_kernel_tls: bool,
    /// The same as --tls-key-file, by nvme-cli's name, or the serial number of a TLS PSK in the
    /// keyring, as 0x2fa1b3c4; a key itself is refused, because every user of the machine could
    /// read it
    #[arg(
        long,
        alias = "tls_key",
        value_name = "@FILE|SERIAL",
        requires = "tls",
        conflicts_with = "tls_key_file",
        help_heading = CONNECTION
    )]
    tls_key: Option<String>,
    /// Identity of the TLS PSK that is in the file of --tls-key, or otherwise in the keyring
    #[arg(
        long,
        value_name = "IDENTITY",
        requires = "tls",
        conflicts_with = "tls_key_file",
        help_heading = CONNECTION
    )]
    tls_key_identity: Option<String>,
    /// NVMe/TCP with TLS 1.3 and keys that come of DH-HMAC-CHAP (secure channel concatenation), and
    /// not without; needs the secret of this host, and for a server those of its hosts
    #[arg(long, conflicts_with_all = ["tls", "tls_key_file"], help_heading = CONNECTION)]
    concat: bool,
    /// Certificate for nbds://, in PEM format
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    tls_cert_key_file: Option<PathBuf>,
    /// Trusted CA certificates; with them a server requires client certificates
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    tls_ca_file: Option<PathBuf>,
    /// Time limit for an I/O command; weft then aborts it
    #[arg(long, default_value = "30s", value_parser = units::parse_duration, help_heading = CONNECTION)]
    io_timeout: Duration,
    /// Time that a lost target has to finish its outstanding writes, if it does not report one;
    /// weft answers them after that
    #[arg(long, default_value = "10s", value_parser = units::parse_duration, help_heading = CONNECTION)]
    quiesce_time: Duration,
    /// NVMe over RDMA: give the target one key for the memory of all commands, instead of one for
    /// each command
    #[arg(long, help_heading = CONNECTION)]
    rdma_shared_key: bool,
    #[command(flatten)]
    dhchap: DhchapArgs,
    #[command(flatten)]
    iscsi: IscsiArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl ConnectArgs {
    /// The connection options for connections of `control`; `queues` is the default number of
    /// queues.
    pub fn options(&self, queues: u16, control: &Control) -> Result<ConnectOptions, Failure> {
        let secrets = self.dhchap.host()?;
        if self.concat && secrets.host.is_none() {
            let text = "--concat needs the secret of this host, of which the key for TLS comes: give --dhchap-secret-file FILE";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        self.options_with(queues, control, secrets)
    }

    /// The same, where the options for authentication are about something else than these
    /// connections.
    pub fn options_with(
        &self,
        queues: u16,
        control: &Control,
        secrets: HostSecrets,
    ) -> Result<ConnectOptions, Failure> {
        Ok(ConnectOptions {
            secrets,
            ceph: weft_ceph::CephAccess::default(),
            ceph_in_group: false,
            created: None,
            read_only: false,
            shared: false,
            disk_timeout: Duration::ZERO,
            in_mirror: false,
            control: control.clone(),
            host: self.host()?,
            opener: None,
            hdr_digest: self.hdr_digest,
            data_digest: self.data_digest,
            nr_io_queues: self.nr_io_queues.unwrap_or(queues).max(1),
            queue_size: self.queue_size,
            keep_alive_ms: self.keep_alive_tmo.saturating_mul(1000),
            connect_timeout: self.connect_timeout,
            io_timeout: self.io_timeout,
            quiesce_time: self.quiesce_time,
            rdma_shared_key: self.rdma_shared_key,
            iscsi: self.iscsi.options()?,
            paths: self.paths.options()?,
            tls: self.tls()?,
        })
    }

    /// The options for authentication.
    pub fn dhchap(&self) -> &DhchapArgs {
        &self.dhchap
    }

    /// Time limit for connecting.
    pub fn patience(&self) -> Duration {
        self.connect_timeout
    }

    /// The certificate files and the pre-shared keys.
    pub fn tls(&self) -> Result<TlsFiles, Failure> {
        let wanted = WantedPsk {
            file: self.tls_key_file.as_deref(),
            keyring: self.keyring.as_deref(),
            key: self.tls_key.as_deref(),
            identity: self.tls_key_identity.as_deref(),
        };
        if self.tls_cert_key_file.is_some() {
            held();
        }
        let psk =
            self.tls.then(|| psk::wanted(&wanted).map(|keys| self.placed(keys))).transpose()?;
        Ok(TlsFiles {
            certificate: self.tls_cert_file.clone(),
            key: self.tls_cert_key_file.clone(),
            ca: self.tls_ca_file.clone(),
            psk,
            concat: self.concat,
            concat_in_user_space: self.no_kernel_tls,
        })
    }

    /// Keys whose connections have their records where the options say.
    pub fn placed(&self, keys: TlsPsk) -> TlsPsk {
        if self.no_kernel_tls { keys.in_user_space() } else { keys }
    }

    /// The options for TLS with pre-shared keys, for a program that is started.
    pub fn tls_options(&self) -> Vec<String> {
        let file = self
            .tls_key_file
            .as_ref()
            .map(|file| ["--tls-key-file".into(), file.display().to_string()]);
        let keyring = self.keyring.as_ref().map(|keyring| ["--keyring".into(), keyring.clone()]);
        let switch = self.tls.then(|| "--tls".to_owned());
        let place = (self.tls && self.no_kernel_tls).then(|| "--no-kernel-tls".to_owned());
        switch
            .into_iter()
            .chain(place)
            .chain(file.into_iter().flatten())
            .chain(keyring.into_iter().flatten())
            .collect()
    }

    fn host(&self) -> Result<Option<HostIdentity>, Failure> {
        let nqn = self.hostnqn.as_deref().map(parse_nqn).transpose()?;
        let host = match (nqn, &self.hostid) {
            (nqn, Some(id)) => {
                Some(HostIdentity::identified(nqn, id).map_err(|e| e.of("--hostid"))?)
            }
            (Some(nqn), None) => Some(HostIdentity::named(nqn)?),
            (None, None) => None,
        };
        Ok(host)
    }
}

/// Parses a namespace ID from the command line.
pub fn parse_nsid(text: &str) -> Result<Nsid, String> {
    Nsid::parse(text).ok_or_else(|| {
        "a namespace ID is a number from 1; give the NQN of the subsystem with --nqn".to_owned()
    })
}
