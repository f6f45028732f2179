use super::*;

fn lines(lines: &[CommandLine]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

fn iscsi(port: u16, secret: &str) -> AttachedExport {
    AttachedExport::Iscsi {
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
        AttachProtocol::of(system, serve_only, Drivers::default(), |it| programs.contains(&it))
    };
    let all = Drivers { ublk: true, loops: true };
    let with_ublk = |system, serve_only| AttachProtocol::of(system, serve_only, all, |_| true);
    let loops = Drivers { ublk: false, loops: true };
    let last = |programs: &'static [&str]| {
        AttachProtocol::of(AttachSystem::Linux, false, loops, |it| programs.contains(&it))
    };
    assert_eq!(last(&["losetup", "nbd-client"]), Some(AttachProtocol::Nbd));
    assert_eq!((last(&["losetup"]), last(&[])), (Some(AttachProtocol::Loop), None));
    assert_eq!(with_ublk(AttachSystem::Linux, false), Some(AttachProtocol::Ublk));
    assert_eq!(with_ublk(AttachSystem::Linux, true), Some(AttachProtocol::Nbd));
    assert_eq!(
        of(AttachSystem::Linux, false, &["iscsiadm", "nbd-client"]),
        Some(AttachProtocol::Iscsi)
    );
    assert_eq!(of(AttachSystem::Linux, false, &["nbd-client"]), Some(AttachProtocol::Nbd));
    assert_eq!(of(AttachSystem::Linux, false, &[]), None);
    assert_eq!(of(AttachSystem::Linux, true, &[]), Some(AttachProtocol::Nbd));
    assert_eq!(of(AttachSystem::Windows, true, &[]), Some(AttachProtocol::Iscsi));
}

#[test]
fn open_iscsi() {
    let served = iscsi(3260, "/run/weft/a.secret");
    let node = "iscsiadm -m node -T iqn.2026-01.local.weft:a -p 127.0.0.1:3260";
    let attach = lines(&served.attach(AttachSystem::Linux));
    assert_eq!([&attach[0], &attach[2]], [&format!("{node} -o new"), &format!("{node} --login")]);
    let words = "' sh /run/weft/a.secret /run/weft/a.secret-of-target iqn.2026-01.local.weft:a/127.0.0.1,3260 /etc/iscsi/nodes /var/lib/iscsi/nodes";
    assert!(attach[1].ends_with(words), "{}", attach[1]);
    assert_eq!(
        lines(&served.detach(AttachSystem::Linux)),
        [format!("{node} --logout"), format!("{node} -o delete")]
    );
    assert!(served.attach(AttachSystem::Other).is_empty());
}

#[test]
fn open_iscsi_waits_for_the_next_server_of_a_daemon() {
    let mut served = iscsi(3260, "/run/weft/a.secret");
    if let AttachedExport::Iscsi { by_daemon, .. } = &mut served {
        *by_daemon = true;
    }
    let attach = lines(&served.attach(AttachSystem::Linux));
    assert_eq!(attach.len(), 4);
    assert!(attach[2].ends_with("replacement_timeout -v 604800"), "{}", attach[2]);
}

/// The secret gets from its file into the node record, and stands in no command.
#[test]
#[cfg(unix)]
fn open_iscsi_reads_the_secret_from_its_record() {
    let root = std::env::temp_dir().join(format!("weft-nodes-{}", std::process::id()));
    let (secret, record) =
        (root.join("run/a.secret"), root.join("second/iqn.2026-01.local.weft:a/127.0.0.1,3260"));
    let served = iscsi(3260, secret.to_str().unwrap());
    let run = |line: &CommandLine| {
        std::process::Command::new(line.program()).args(&line.0[1..]).status().unwrap().success()
    };
    let (random, own) = ("JvQh0cPjWn8xZbTa", "m2R5yLkDs7GqEuXf");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, random).unwrap();
    std::fs::write(root.join("run/a.secret-of-target"), own).unwrap();
    let mut line = served.attach(AttachSystem::Linux).remove(1);
    assert!(!line.to_string().contains(random) && !line.to_string().contains(own));
    for (place, name) in line.0.iter_mut().rev().zip(["second", "first"]) {
        *place = root.join(name).display().to_string();
    }
    assert!(!run(&line), "there is no record yet");
    std::fs::create_dir_all(record.parent().unwrap()).unwrap();
    std::fs::write(&record, "node.session.auth.authmethod = None\n# END RECORD\n").unwrap();
    assert!(run(&line));
    let (password, password_in) = (format!("password = {random}"), format!("password_in = {own}"));
    let auth =
        ["authmethod = CHAP", "username = weft", "username_in = weft", &password, &password_in]
            .map(|it| format!("node.session.auth.{it}\n"));
    assert!(std::fs::read_to_string(&record).unwrap().ends_with(&auth.concat()));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn windows() {
    let served = iscsi(3261, r"C:\Users\o'hara\a.secret");
    let commands = lines(&served.attach(AttachSystem::Windows));
    let portal = "-TargetPortalAddress 127.0.0.1 -TargetPortalPortNumber 3261";
    let chap = r"-AuthenticationType ONEWAYCHAP -ChapUsername weft -Secret (Get-Content -LiteralPath 'C:\Users\o''hara\a.secret')";
    assert_eq!(commands[1], format!("New-IscsiTargetPortal {portal} {chap}"));
    assert_eq!(
        commands[2],
        format!("Connect-IscsiTarget -NodeAddress iqn.2026-01.local.weft:a {portal} {chap}")
    );
    assert_eq!(served.detach(AttachSystem::Windows).len(), 2);
}

#[test]
fn nbd_client() {
    let served = AttachedExport::Nbd {
        socket: "/run/weft/a b.sock".into(),
        device: "/dev/nbd3".into(),
        block_bytes: Some(4096),
    };
    let attach = ["modprobe nbd", "nbd-client -b 4096 -unix '/run/weft/a b.sock' /dev/nbd3 -N 1"];
    assert_eq!(lines(&served.attach(AttachSystem::Linux)), attach);
    assert_eq!(lines(&served.detach(AttachSystem::Linux)), ["nbd-client -d /dev/nbd3"]);
    assert!(served.attach(AttachSystem::Windows).is_empty());
}

#[test]
#[cfg(unix)]
fn loop_devices() {
    let file = |by_root| File { directory: "/run/weft/a".into(), by_root };
    let served = AttachedExport::Loop {
        file: file(true),
        block_bytes: Some(512),
        device: "/dev/loop3".into(),
    };
    let attach = ["losetup --find --show --direct-io=on --sector-size 512 /run/weft/a/disk"];
    assert_eq!(lines(&served.attach(AttachSystem::Linux)), attach);
    let detach = ["losetup -d /dev/loop3", "umount /run/weft/a"];
    assert_eq!(lines(&served.detach(AttachSystem::Linux)), detach);
    let of_user = AttachedExport::Fuse(file(false));
    assert_eq!(lines(&of_user.detach(AttachSystem::Linux)), ["fusermount3 -u /run/weft/a"]);
    assert!(of_user.attach(AttachSystem::Linux).is_empty());
}

#[test]
fn words_are_quoted_for_the_shell() {
    assert_eq!(CommandLine::new(&["echo", "o'hara", "a b"]).to_string(), r"echo 'o'\''hara' 'a b'");
}
