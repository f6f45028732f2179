//! The commands that attach a server on the loopback to the system, and detach it.

use std::fmt;
use std::path::PathBuf;

/// CHAP user name of the initiators of `weft connect`.
pub const CHAP_USER: &str = "weft";

/// The module of the ublk driver, of loop devices, and of FUSE.
pub const UBLK_MODULE: &str = "ublk_drv";
/// See above.
pub const LOOP_MODULE: &str = "loop";
/// See above.
pub const FUSE_MODULE: &str = "fuse";

/// The name of a file by FUSE in its directory.
pub const FILE: &str = "disk";

/// Seconds that Linux waits for a command to an attached SCSI disk.
pub const COMMAND_S: u32 = 604_800;

/// The protocol between weft and the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachProtocol {
    /// The iSCSI initiator of the system: open-iscsi on Linux, Microsoft's on Windows.
    Iscsi,
    /// nbd-client and the kernel's nbd on Linux; another NBD client elsewhere.
    Nbd,
    /// The ublk driver of Linux: the disk is there as soon as it is served.
    Ublk,
    /// A loop device of Linux on the file of [`AttachProtocol::Fuse`].
    Loop,
    /// The file `disk` in a directory, by the FUSE of Linux: it is there as soon as it is served.
    Fuse,
}

impl fmt::Display for AttachProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iscsi => "iscsi",
            Self::Nbd => "nbd",
            Self::Ublk => "ublk",
            Self::Loop => "loop",
            Self::Fuse => "fuse",
        })
    }
}

impl AttachProtocol {
    /// The default protocol of a system; none if it has no program for any. The ublk driver comes
    /// first: its disks survive the end of their process. A loop device on a file by FUSE comes
    /// last: it needs only what every kernel has.
    pub fn of(
        system: AttachSystem,
        serve_only: bool,
        has: Drivers,
        is_installed: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        match system {
            AttachSystem::Windows => Some(Self::Iscsi),
            // A Unix socket needs no secret.
            _ if serve_only => Some(Self::Nbd),
            AttachSystem::Linux if has.ublk => Some(Self::Ublk),
            AttachSystem::Linux if is_installed("iscsiadm") => Some(Self::Iscsi),
            AttachSystem::Linux if is_installed("nbd-client") => Some(Self::Nbd),
            AttachSystem::Linux if has.loops && is_installed("losetup") => Some(Self::Loop),
            AttachSystem::Linux => None,
            // Rejected later, with the reason.
            AttachSystem::Other => Some(Self::Nbd),
        }
    }
}

/// Drivers of Linux that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drivers {
    /// Disks by ublk.
    pub ublk: bool,
    /// Loop devices, and files by FUSE below them.
    pub loops: bool,
}

/// Operating systems for which weft knows the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachSystem {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// A system on which weft only serves, and other programs attach.
    Other,
}

impl AttachSystem {
    /// The current system.
    pub const fn here() -> Self {
        if cfg!(target_os = "linux") {
            Self::Linux
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Other
        }
    }
}

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(pub Vec<String>);

impl CommandLine {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// The name of the program.
    pub fn program(&self) -> &str {
        &self.0[0]
    }
}

impl fmt::Display for CommandLine {
    /// Quoted for a shell: PowerShell on Windows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ("powershell", Some(command)) = (self.program(), self.0.last()) {
            return f.write_str(command);
        }
        for (n, word) in self.0.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.:,+[]@%$".contains(c);
            let quote = if word.chars().all(plain) { "" } else { "'" };
            write!(
                f,
                "{}{quote}{}{quote}",
                if n > 0 { " " } else { "" },
                word.replace('\'', r"'\''")
            )?;
        }
        Ok(())
    }
}

/// Adds the CHAP user names and secrets of both directions to a node record of open-iscsi, which
/// uses the last of several values. Node records have mode 0600. An argument of
/// `iscsiadm -o update` would be readable by every user.
///
/// The target authenticates itself too: after weft was killed, open-iscsi keeps connecting to a
/// port that any user may then listen on.
///
/// `$1` is the file with the initiator's secret, `$2` that with the target's, `$3` the record's
/// path relative to one of the directories `$4`, ….
const NODE_SECRET: &str = r#"secret=$1 own=$2 record=$3
shift 3
for nodes; do
  if [ -f "$nodes/$record" ]; then
    {
      printf "node.session.auth.%s\n" "authmethod = CHAP" "username = weft" "username_in = weft"
      printf "node.session.auth.password = "; cat "$secret"; echo
      printf "node.session.auth.password_in = "; cat "$own"; echo
    } >>"$nodes/$record"
    exit
  fi
done
echo "open-iscsi has no node record $record in $*" >&2
exit 1"#;

/// The directories of open-iscsi's node records: the default, and that of distributions which
/// reserve `/etc` for administrators.
const NODES: [&str; 2] = ["/etc/iscsi/nodes", "/var/lib/iscsi/nodes"];

/// The setting of open-iscsi for how long a disk waits for its session to come back, in seconds.
const REPLACEMENT: &str = "node.session.timeo.replacement_timeout";

/// An export to attach.
pub enum AttachedExport {
    /// Logical unit 0, for initiators that log in with CHAP as [`CHAP_USER`].
    Iscsi {
        /// Name of the target.
        iqn: String,
        /// Port on the loopback.
        port: u16,
        /// File with the CHAP secret of initiators.
        secret: PathBuf,
        /// File with the CHAP secret of the target.
        target_secret: PathBuf,
        /// A daemon starts another server when this one is killed.
        by_daemon: bool,
    },
    /// The export with the name `1`.
    Nbd {
        /// Unix socket.
        socket: PathBuf,
        /// The device to use: `/dev/nbdN`.
        device: String,
        /// Bytes of a block, where they are known.
        block_bytes: Option<u32>,
    },
    /// A disk by the ublk driver of Linux, which needs no command.
    Ublk,
    /// A file by FUSE, which needs no command to be attached.
    Fuse(File),
    /// A loop device on such a file.
    Loop {
        /// The file.
        file: File,
        /// Bytes of a sector of the device, where they are known.
        block_bytes: Option<u32>,
        /// The device: `/dev/loopN`.
        device: String,
    },
}

/// A file by FUSE.
pub struct File {
    /// The directory in which it is.
    pub directory: PathBuf,
    /// Root has mounted it.
    pub by_root: bool,
}

impl File {
    /// Its path.
    pub fn path(&self) -> String {
        self.directory.join(FILE).display().to_string()
    }

    /// The command that makes a loop device of it, and prints its name. The sectors are those of
    /// the source, for which others have made partitions and file systems.
    fn set_up_loop(&self, block_bytes: Option<u32>) -> CommandLine {
        let (path, bytes) = (self.path(), block_bytes.map(|bytes| bytes.to_string()));
        let sector = bytes.iter().flat_map(|bytes| ["--sector-size", bytes]);
        let start = ["losetup", "--find", "--show", "--direct-io=on"];
        CommandLine::new(
            &start.into_iter().chain(sector).chain([path.as_str()]).collect::<Vec<&str>>(),
        )
    }

    /// The command that ends it.
    fn unmount(&self) -> CommandLine {
        let directory = self.directory.display().to_string();
        match self.by_root {
            true => CommandLine::new(&["umount", &directory]),
            false => CommandLine::new(&["fusermount3", "-u", &directory]),
        }
    }
}

impl AttachedExport {
    /// The commands that attach it; none if the system has no such commands. Their arguments
    /// contain no secret.
    pub fn attach(&self, system: AttachSystem) -> Vec<CommandLine> {
        match (self, system) {
            (Self::Iscsi { iqn, port, secret, target_secret, by_daemon }, AttachSystem::Linux) => {
                let (portal, record) =
                    (format!("127.0.0.1:{port}"), format!("{iqn}/127.0.0.1,{port}"));
                let (secret, own) =
                    (secret.display().to_string(), target_secret.display().to_string());
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                let mut lines = vec![
                    CommandLine::new(&[&node[..], &["-o", "new"]].concat()),
                    CommandLine::new(
                        &[&["sh", "-c", NODE_SECRET, "sh", &secret, &own, &record], &NODES[..]]
                            .concat(),
                    ),
                    CommandLine::new(&[&node[..], &["--login"]].concat()),
                ];
                if *by_daemon {
                    // By default the disk fails after 120 s without a server.
                    let wait = format!("{COMMAND_S}");
                    let update = ["-o", "update", "-n", REPLACEMENT, "-v", &wait];
                    lines.insert(2, CommandLine::new(&[&node[..], &update].concat()));
                }
                lines
            }
            (Self::Iscsi { iqn, port, secret, .. }, AttachSystem::Windows) => {
                let portal =
                    format!("-TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port}");
                let file = secret.display().to_string().replace('\'', "''");
                let chap = format!(
                    "-AuthenticationType ONEWAYCHAP -ChapUsername {CHAP_USER} -Secret (Get-Content -LiteralPath '{file}')"
                );
                vec![
                    powershell(
                        "Set-Service -Name MSiSCSI -StartupType Automatic; Start-Service -Name MSiSCSI",
                    ),
                    powershell(&format!("New-IscsiTargetPortal {portal} {chap}")),
                    powershell(&format!("Connect-IscsiTarget -NodeAddress {iqn} {portal} {chap}")),
                ]
            }
            (Self::Nbd { socket, device, block_bytes }, AttachSystem::Linux) => {
                let socket = socket.display().to_string();
                let bytes = block_bytes.map(|bytes| bytes.to_string());
                // nbd-client does not pass on the size that the server asks for. It takes this
                // option in front of the others only.
                let size = bytes.iter().flat_map(|bytes| ["-b", bytes]);
                let client: Vec<&str> = ["nbd-client"]
                    .into_iter()
                    .chain(size)
                    .chain(["-unix", &socket, device, "-N", "1"])
                    .collect();
                vec![CommandLine::new(&["modprobe", "nbd"]), CommandLine::new(&client)]
            }
            (Self::Loop { file, block_bytes, .. }, AttachSystem::Linux) => {
                vec![file.set_up_loop(*block_bytes)]
            }
            _ => Vec::new(),
        }
    }

    /// The commands that detach it.
    pub fn detach(&self, system: AttachSystem) -> Vec<CommandLine> {
        match (self, system) {
            (Self::Iscsi { iqn, port, .. }, AttachSystem::Linux) => {
                let portal = format!("127.0.0.1:{port}");
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                vec![
                    CommandLine::new(&[&node[..], &["--logout"]].concat()),
                    CommandLine::new(&[&node[..], &["-o", "delete"]].concat()),
                ]
            }
            (Self::Iscsi { iqn, port, .. }, AttachSystem::Windows) => vec![
                powershell(&format!("Disconnect-IscsiTarget -NodeAddress {iqn} -Confirm:$false")),
                powershell(&format!(
                    "Remove-IscsiTargetPortal -TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port} -Confirm:$false"
                )),
            ],
            (Self::Nbd { device, .. }, AttachSystem::Linux) => {
                vec![CommandLine::new(&["nbd-client", "-d", device])]
            }
            (Self::Fuse(file), AttachSystem::Linux) => vec![file.unmount()],
            (Self::Loop { file, device, .. }, AttachSystem::Linux) => {
                vec![CommandLine::new(&["losetup", "-d", device]), file.unmount()]
            }
            _ => Vec::new(),
        }
    }
}

fn powershell(command: &str) -> CommandLine {
    CommandLine::new(&["powershell", "-NoProfile", "-Command", command])
}

#[cfg(test)]
mod tests;
