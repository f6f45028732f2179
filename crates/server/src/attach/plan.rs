//! The commands that attach a server on the loopback to the system, and detach it.

use std::fmt;
use std::path::PathBuf;

/// CHAP user name of the initiators of `weft connect`.
pub const CHAP_USER: &str = "weft";

/// The module of the ublk driver.
pub const UBLK_MODULE: &str = "ublk_drv";

/// Seconds that Linux waits for a command to an attached SCSI disk.
pub const COMMAND_S: u32 = 604_800;

/// The protocol between weft and the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The iSCSI initiator of the system: open-iscsi on Linux, Microsoft's on Windows.
    Iscsi,
    /// nbd-client and the kernel's nbd on Linux; another NBD client elsewhere.
    Nbd,
    /// The ublk driver of Linux: the disk is there as soon as it is served.
    Ublk,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iscsi => "iscsi",
            Self::Nbd => "nbd",
            Self::Ublk => "ublk",
        })
    }
}

impl Protocol {
    /// The default protocol of a system; none if it has no program for any. The ublk driver comes
    /// first: its disks survive the end of their process.
    pub fn of(
        system: System,
        serve_only: bool,
        has_ublk: bool,
        is_installed: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        match system {
            System::Windows => Some(Self::Iscsi),
            // A Unix socket needs no secret.
            _ if serve_only => Some(Self::Nbd),
            System::Linux if has_ublk => Some(Self::Ublk),
            System::Linux if is_installed("iscsiadm") => Some(Self::Iscsi),
            System::Linux if is_installed("nbd-client") => Some(Self::Nbd),
            System::Linux => None,
            // Rejected later, with the reason.
            System::Other => Some(Self::Nbd),
        }
    }
}

/// Operating systems for which weft knows the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// A system on which weft only serves, and other programs attach.
    Other,
}

impl System {
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
pub struct Line(pub Vec<String>);

impl Line {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// The name of the program.
    pub fn program(&self) -> &str {
        &self.0[0]
    }
}

impl fmt::Display for Line {
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

/// What to attach.
pub enum Served {
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
}

impl Served {
    /// The commands that attach it; none if the system has no such commands. Their arguments
    /// contain no secret.
    pub fn attach(&self, system: System) -> Vec<Line> {
        match (self, system) {
            (Self::Iscsi { iqn, port, secret, target_secret, by_daemon }, System::Linux) => {
                let (portal, record) =
                    (format!("127.0.0.1:{port}"), format!("{iqn}/127.0.0.1,{port}"));
                let (secret, own) =
                    (secret.display().to_string(), target_secret.display().to_string());
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                let mut lines = vec![
                    Line::new(&[&node[..], &["-o", "new"]].concat()),
                    Line::new(
                        &[&["sh", "-c", NODE_SECRET, "sh", &secret, &own, &record], &NODES[..]]
                            .concat(),
                    ),
                    Line::new(&[&node[..], &["--login"]].concat()),
                ];
                if *by_daemon {
                    // By default the disk fails after 120 s without a server.
                    let wait = format!("{COMMAND_S}");
                    let update = ["-o", "update", "-n", REPLACEMENT, "-v", &wait];
                    lines.insert(2, Line::new(&[&node[..], &update].concat()));
                }
                lines
            }
            (Self::Iscsi { iqn, port, secret, .. }, System::Windows) => {
                let portal =
                    format!("-TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port}");
                let file = secret.display().to_string().replace('\'', "''");
                let chap = format!(
                    "-AuthenticationType ONEWAYCHAP -ChapUsername {CHAP_USER} -ChapSecret (Get-Content -LiteralPath '{file}')"
                );
                vec![
                    powershell(
                        "Set-Service -Name MSiSCSI -StartupType Automatic; Start-Service -Name MSiSCSI",
                    ),
                    powershell(&format!("New-IscsiTargetPortal {portal} {chap}")),
                    powershell(&format!("Connect-IscsiTarget -NodeAddress {iqn} {portal} {chap}")),
                ]
            }
            (Self::Nbd { socket, device, block_bytes }, System::Linux) => {
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
                vec![Line::new(&["modprobe", "nbd"]), Line::new(&client)]
            }
            _ => Vec::new(),
        }
    }

    /// The commands that detach it.
    pub fn detach(&self, system: System) -> Vec<Line> {
        match (self, system) {
            (Self::Iscsi { iqn, port, .. }, System::Linux) => {
                let portal = format!("127.0.0.1:{port}");
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                vec![
                    Line::new(&[&node[..], &["--logout"]].concat()),
                    Line::new(&[&node[..], &["-o", "delete"]].concat()),
                ]
            }
            (Self::Iscsi { iqn, port, .. }, System::Windows) => vec![
                powershell(&format!("Disconnect-IscsiTarget -NodeAddress {iqn} -Confirm:$false")),
                powershell(&format!(
                    "Remove-IscsiTargetPortal -TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port} -Confirm:$false"
                )),
            ],
            (Self::Nbd { device, .. }, System::Linux) => {
                vec![Line::new(&["nbd-client", "-d", device])]
            }
            _ => Vec::new(),
        }
    }
}

fn powershell(command: &str) -> Line {
    Line::new(&["powershell", "-NoProfile", "-Command", command])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[Line]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    fn iscsi(port: u16, secret: &str) -> Served {
        Served::Iscsi {
            iqn: "iqn.2026-01.local.weft:a".into(),
            port,
            secret: secret.into(),
            target_secret: format!("{secret}-of-target").into(),
            by_daemon: false,
        }
    }

    #[test]
    fn without_a_protocol_what_is_installed_is_used() {
        let of = |system, serve_only, programs: &'static [&str]| {
            Protocol::of(system, serve_only, false, |it| programs.contains(&it))
        };
        let with_ublk = |system, serve_only| Protocol::of(system, serve_only, true, |_| true);
        assert_eq!(with_ublk(System::Linux, false), Some(Protocol::Ublk));
        assert_eq!(with_ublk(System::Linux, true), Some(Protocol::Nbd));
        assert_eq!(of(System::Linux, false, &["iscsiadm", "nbd-client"]), Some(Protocol::Iscsi));
        assert_eq!(of(System::Linux, false, &["nbd-client"]), Some(Protocol::Nbd));
        assert_eq!(of(System::Linux, false, &[]), None);
        assert_eq!(of(System::Linux, true, &[]), Some(Protocol::Nbd));
        assert_eq!(of(System::Windows, true, &[]), Some(Protocol::Iscsi));
    }

    #[test]
    fn open_iscsi() {
        let served = iscsi(3260, "/run/weft/a.secret");
        let node = "iscsiadm -m node -T iqn.2026-01.local.weft:a -p 127.0.0.1:3260";
        let attach = lines(&served.attach(System::Linux));
        assert_eq!(
            [&attach[0], &attach[2]],
            [&format!("{node} -o new"), &format!("{node} --login")]
        );
        let words = "' sh /run/weft/a.secret /run/weft/a.secret-of-target iqn.2026-01.local.weft:a/127.0.0.1,3260 /etc/iscsi/nodes /var/lib/iscsi/nodes";
        assert!(attach[1].ends_with(words), "{}", attach[1]);
        assert_eq!(
            lines(&served.detach(System::Linux)),
            [format!("{node} --logout"), format!("{node} -o delete")]
        );
        assert!(served.attach(System::Other).is_empty());
    }

    #[test]
    fn open_iscsi_waits_for_the_next_server_of_a_daemon() {
        let mut served = iscsi(3260, "/run/weft/a.secret");
        if let Served::Iscsi { by_daemon, .. } = &mut served {
            *by_daemon = true;
        }
        let attach = lines(&served.attach(System::Linux));
        assert_eq!(attach.len(), 4);
        assert!(attach[2].ends_with("replacement_timeout -v 604800"), "{}", attach[2]);
    }

    /// The secret gets from its file into the node record, and stands in no command.
    #[test]
    #[cfg(unix)]
    fn open_iscsi_reads_the_secret_from_its_record() {
        let root = std::env::temp_dir().join(format!("weft-nodes-{}", std::process::id()));
        let (secret, record) = (
            root.join("run/a.secret"),
            root.join("second/iqn.2026-01.local.weft:a/127.0.0.1,3260"),
        );
        let served = iscsi(3260, secret.to_str().unwrap());
        let run = |line: &Line| {
            std::process::Command::new(line.program())
                .args(&line.0[1..])
                .status()
                .unwrap()
                .success()
        };
        let (random, own) = ("JvQh0cPjWn8xZbTa", "m2R5yLkDs7GqEuXf");
        std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
        std::fs::write(&secret, random).unwrap();
        std::fs::write(root.join("run/a.secret-of-target"), own).unwrap();
        let mut line = served.attach(System::Linux).remove(1);
        assert!(!line.to_string().contains(random) && !line.to_string().contains(own));
        for (place, name) in line.0.iter_mut().rev().zip(["second", "first"]) {
            *place = root.join(name).display().to_string();
        }
        assert!(!run(&line), "there is no record yet");
        std::fs::create_dir_all(record.parent().unwrap()).unwrap();
        std::fs::write(&record, "node.session.auth.authmethod = None\n# END RECORD\n").unwrap();
        assert!(run(&line));
        let (password, password_in) =
            (format!("password = {random}"), format!("password_in = {own}"));
        let auth =
            ["authmethod = CHAP", "username = weft", "username_in = weft", &password, &password_in]
                .map(|it| format!("node.session.auth.{it}\n"));
        assert!(std::fs::read_to_string(&record).unwrap().ends_with(&auth.concat()));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn windows() {
        let served = iscsi(3261, r"C:\Users\o'hara\a.secret");
        let commands = lines(&served.attach(System::Windows));
        let portal = "-TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber 3261";
        let chap = r"-AuthenticationType ONEWAYCHAP -ChapUsername weft -ChapSecret (Get-Content -LiteralPath 'C:\Users\o''hara\a.secret')";
        assert_eq!(commands[1], format!("New-IscsiTargetPortal {portal} {chap}"));
        assert_eq!(
            commands[2],
            format!("Connect-IscsiTarget -NodeAddress iqn.2026-01.local.weft:a {portal} {chap}")
        );
        assert_eq!(served.detach(System::Windows).len(), 2);
    }

    #[test]
    fn nbd_client() {
        let served = Served::Nbd {
            socket: "/run/weft/a b.sock".into(),
            device: "/dev/nbd3".into(),
            block_bytes: Some(4096),
        };
        let attach =
            ["modprobe nbd", "nbd-client -b 4096 -unix '/run/weft/a b.sock' /dev/nbd3 -N 1"];
        assert_eq!(lines(&served.attach(System::Linux)), attach);
        assert_eq!(lines(&served.detach(System::Linux)), ["nbd-client -d /dev/nbd3"]);
        assert!(served.attach(System::Windows).is_empty());
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(Line::new(&["echo", "o'hara", "a b"]).to_string(), r"echo 'o'\''hara' 'a b'");
    }
}
