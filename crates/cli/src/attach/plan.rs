//! Which commands attach what a server on the loopback serves, and detach it again.

use clap::ValueEnum;
use std::fmt;
use std::path::Path;

/// By which protocol a device is handed to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The system's iSCSI initiator: open-iscsi on Linux, the one that Windows has.
    Iscsi,
    /// nbd-client and the kernel's nbd on Linux; any NBD client elsewhere.
    Nbd,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iscsi => "iscsi",
            Self::Nbd => "nbd",
        })
    }
}

/// The systems that have commands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// One on which weft serves, and somebody else attaches.
    Other,
}

impl System {
    /// This one.
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

    /// The program.
    pub fn program(&self) -> &str {
        &self.0[0]
    }
}

impl fmt::Display for Line {
    /// As one types it into a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, word) in self.0.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.:,+[]@%$".contains(c);
            let quote = if word.chars().all(plain) { "" } else { "'" };
            write!(f, "{}{quote}{word}{quote}", if n > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// What is to be attached.
pub enum Served<'a> {
    /// A logical unit 0.
    Iscsi {
        /// Name of the target.
        iqn: &'a str,
        /// Port on the loopback.
        port: u16,
    },
    /// An export with the name `1`.
    Nbd {
        /// Unix socket.
        socket: &'a Path,
        /// What it becomes: `/dev/nbdN`.
        device: &'a str,
    },
}

impl Served<'_> {
    /// The commands that attach it; none where the system has none.
    pub fn attach(&self, system: System) -> Vec<Line> {
        match (self, system) {
            (Self::Iscsi { iqn, port }, System::Linux) => {
                let portal = format!("127.0.0.1:{port}");
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                vec![Line::new(&[&node[..], &["-o", "new"]].concat()), Line::new(&[&node[..], &["--login"]].concat())]
            }
            (Self::Iscsi { iqn, port }, System::Windows) => vec![
                powershell("Set-Service -Name MSiSCSI -StartupType Automatic; Start-Service -Name MSiSCSI"),
                powershell(&format!("New-IscsiTargetPortal -TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port}")),
                powershell(&format!(
                    "Connect-IscsiTarget -NodeAddress {iqn} -TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port} -IsPersistent $true"
                )),
            ],
            (Self::Nbd { socket, device }, System::Linux) => {
                let socket = socket.display().to_string();
                vec![Line::new(&["modprobe", "nbd"]), Line::new(&["nbd-client", "-unix", &socket, device, "-N", "1"])]
            }
            _ => Vec::new(),
        }
    }

    /// The commands that detach it.
    pub fn detach(&self, system: System) -> Vec<Line> {
        match (self, system) {
            (Self::Iscsi { iqn, port }, System::Linux) => {
                let portal = format!("127.0.0.1:{port}");
                let node = ["iscsiadm", "-m", "node", "-T", iqn, "-p", &portal];
                vec![Line::new(&[&node[..], &["--logout"]].concat()), Line::new(&[&node[..], &["-o", "delete"]].concat())]
            }
            (Self::Iscsi { iqn, port }, System::Windows) => vec![
                powershell(&format!("Disconnect-IscsiTarget -NodeAddress {iqn} -Confirm:$false")),
                powershell(&format!(
                    "Remove-IscsiTargetPortal -TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber {port} -Confirm:$false"
                )),
            ],
            (Self::Nbd { device, .. }, System::Linux) => vec![Line::new(&["nbd-client", "-d", device])],
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

    #[test]
    fn open_iscsi() {
        let served = Served::Iscsi { iqn: "iqn.2026-01.local.weft:a", port: 3260 };
        let node = "iscsiadm -m node -T iqn.2026-01.local.weft:a -p 127.0.0.1:3260";
        assert_eq!(lines(&served.attach(System::Linux)), [format!("{node} -o new"), format!("{node} --login")]);
        assert_eq!(lines(&served.detach(System::Linux)), [format!("{node} --logout"), format!("{node} -o delete")]);
        assert!(served.attach(System::Other).is_empty());
    }

    #[test]
    fn windows() {
        let served = Served::Iscsi { iqn: "iqn.2026-01.local.weft:a", port: 3261 };
        let commands = lines(&served.attach(System::Windows));
        assert_eq!(
            commands[2],
            "powershell -NoProfile -Command 'Connect-IscsiTarget -NodeAddress iqn.2026-01.local.weft:a -TargetPortalAddress 127.0.0.1 \
             -TargetPortalPortNumber 3261 -IsPersistent $true'"
        );
        assert_eq!(served.detach(System::Windows).len(), 2);
    }

    #[test]
    fn nbd_client() {
        let served = Served::Nbd { socket: Path::new("/run/weft/a b.sock"), device: "/dev/nbd3" };
        let attach = ["modprobe nbd", "nbd-client -unix '/run/weft/a b.sock' /dev/nbd3 -N 1"];
        assert_eq!(lines(&served.attach(System::Linux)), attach);
        assert_eq!(lines(&served.detach(System::Linux)), ["nbd-client -d /dev/nbd3"]);
        assert!(served.attach(System::Windows).is_empty());
    }
}
