//! Configurations in the shapes that nvmetcli and SPDK save.

use super::import;
use crate::config::Desired;
use crate::config::desired::DesiredSubsystem;
use crate::config::tests::read;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use toml::{Table, Value};
use weft_block::AccessState;
use weft_endpoint::inventory::Access;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::auth::DhchapSecret;
use weft_proto::nvme::types::{Nqn, Nsid};

const NVMET: &str = include_str!("../data/nvmet.json");
const SPDK: &str = include_str!("../data/spdk.json");
const CEPH_ISCSI: &str = include_str!("../data/ceph-iscsi.json");

/// A directory, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("weft-import-{own}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The files with secrets that a configuration names.
fn secret_files(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Table(table) => {
            for (key, value) in table {
                match value {
                    Value::String(file) if key.ends_with("secret_file") => found.push(file.clone()),
                    Value::Array(files) if key == "secret_files" => {
                        found.extend(files.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    other => secret_files(other, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| secret_files(value, found)),
        _ => {}
    }
}

/// The server that an imported configuration asks for, once the files that it names exist; and the
/// settings that were left out. A file `/srv/disk.img` exists while it is imported.
pub fn imported(text: &str) -> (Desired, Vec<String>) {
    let scratch = Scratch::new();
    let disk = scratch.0.join("disk.img");
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let text = text.replace("/srv/disk.img", &disk.to_str().unwrap().replace('\\', "/"));
    let (toml, left) = import(&text, "config.json", false).unwrap();
    assert!(left.iter().all(|sentence| toml.contains(sentence)));
    assert!(!toml.contains("never-shown") && !toml.contains("DHHC-1"), "{toml}");
    let mut files = Vec::new();
    secret_files(&Value::Table(toml.parse::<Table>().unwrap()), &mut files);
    files.sort();
    files.dedup();
    for (n, file) in (1..).zip(&files) {
        // Without its secrets it does not start.
        assert!(read(&toml, "weft.toml", &scratch.0).is_err(), "{file} is missing");
        let secret = match file.ends_with("dhchap") {
            true => DhchapSecret::of_key(&[n; 32], None).unwrap().text().to_string(),
            false => format!("the secret in {file}"),
        };
        crate::secret::create_private(&scratch.0.join(file), &secret).unwrap();
    }
    let desired =
        read(&toml, "weft.toml", &scratch.0).unwrap_or_else(|e| panic!("{:?}\n{toml}", e.lines()));
    (desired, left)
}

fn only(host: &str) -> Access<Nqn> {
    Access::Only([Nqn::new(host).unwrap()].into())
}

#[test]
fn what_nvmetcli_saves() {
    let (desired, left) = imported(NVMET);
    assert_eq!(desired.listen, ["nvme+tcp://192.0.2.1:4420", "nvme+rdma://192.0.2.1:4421"]);
    let [open, closed] = &desired.subsystems[..] else { panic!("{desired:?}") };
    assert_eq!((&open.hosts, open.namespaces.len()), (&Access::Any, 1), "one is disabled");
    assert_eq!(open.namespaces[0].source, "/dev/nvme0n1");
    assert_eq!(
        open.namespaces[0].uuid.unwrap().to_string(),
        "91fdba0d-f87b-4c25-b80f-db7be1418b9e"
    );
    assert_eq!(open.namespaces[0].nguid, None, "it was not set");
    let host = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    assert_eq!(closed.hosts, only(host));
    let demanded = closed.authentication.as_ref().unwrap();
    assert_eq!(demanded.hosts.keys().map(Nqn::as_str).collect::<Vec<_>>(), [host]);
    assert!(demanded.others.is_empty() && open.authentication.is_none());
    let queues = |of: &DesiredSubsystem| of.numbers.queues.map(NonZeroU16::get);
    assert_eq!((queues(open), queues(closed)), (None, Some(16)), "the first has the default");
    let left = left.join("\n");
    for part in [
        "port 2 at nvme+tcp://[2001:db8::1]:4420 serves 1 of 2 subsystems",
        "disabled",
        "has a DH-HMAC-CHAP key: write it into nqn.2014-08.org.nvmexpress-uuid-1",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
    // Without the block size of its inode, or with one that weft does not have, a file is left out.
    let bytes = weft_io::file_system::inode_block_bytes(&std::env::temp_dir());
    let bytes = bytes.map(|bytes| bytes.min(4096)).filter(|bytes| [512, 4096].contains(bytes));
    let [file] = &closed.namespaces[..] else { return assert_eq!(bytes, None, "{left}") };
    assert_eq!((file.nsid, file.nguid.unwrap()[0]), (Nsid(7), 0xef));
    let source = format!("/disk.img,block={}", bytes.unwrap());
    assert!(file.source.ends_with(&source), "{file:?}");
    // No port says that its group is accessible.
    let states: Vec<_> =
        desired.states.iter().map(|of| (of.group, of.listener, of.state)).collect();
    assert_eq!((file.group, open.namespaces[0].group), (2, 1));
    assert_eq!(states, [(2, None, AccessState::Inaccessible)]);
}

#[test]
fn what_spdk_saves() {
    let (desired, left) = imported(SPDK);
    assert_eq!(desired.listen, ["nvme+tcp://192.0.2.10:4420"]);
    let [open, closed] = &desired.subsystems[..] else { panic!("{desired:?}") };
    let sources: Vec<_> =
        open.namespaces.iter().map(|it| (it.nsid.0, it.source.as_str())).collect();
    assert_eq!(sources, [(1, "ram:64MiB"), (2, "/srv/aio.img,block=4096"), (5, "null:1GiB")]);
    assert_eq!(open.namespaces[0].uuid, None, "a RAM disk comes back empty");
    assert_eq!(
        open.namespaces[2].uuid.unwrap().to_string(),
        "7c2cb9d2-0d4c-4c36-8a0d-0e1f67ad1d10"
    );
    assert_eq!(open.namespaces[1].nguid.unwrap()[..2], [0xab, 0xcd]);
    let host = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    assert_eq!(closed.hosts, only(host));
    assert_eq!(
        closed.namespaces[0].source,
        "nvme+tcp://192.0.2.20:4420/nqn.2026-01.example:upstream/1"
    );
    assert_eq!(closed.namespaces[0].hosts, only(host));
    let queues = |of: &DesiredSubsystem| of.numbers.queues.map(NonZeroU16::get);
    assert_eq!((queues(open), queues(closed)), (Some(32), Some(32)), "of the TCP transport");
    let left = left.join("\n");
    for part in [
        "Nvme1 is a controller at PCIe",
        "bdev_lvol",
        "keeps no identity",
        "serves lvs/vol, which",
        "vhost_blk",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

/// The names and the values that the limit of I/O queues has elsewhere.
#[test]
fn limits_of_io_queues_are_carried_over() {
    for (attribute, queues) in
        [("\"8\"", Some(8)), ("8", Some(8)), ("\"128\"", None), ("5000", Some(1024)), ("0", None)]
    {
        let text = NVMET.replace("\"qid_max\": \"16\"", &format!("\"qid_max\": {attribute}"));
        let (desired, left) = imported(&text);
        let numbers = &desired.subsystems[1].numbers;
        assert_eq!(numbers.queues.map(NonZeroU16::get), queues, "{attribute}");
        assert_eq!(left.join("\n").contains("5000 I/O queues"), attribute == "5000");
    }
    // The older name counts the admin queue.
    let old = SPDK.replace("\"max_io_qpairs_per_ctrlr\": 32", "\"max_qpairs_per_ctrlr\": 65");
    let queues = imported(&old).0.subsystems[0].numbers.queues;
    assert_eq!(queues.map(NonZeroU16::get), Some(64));
}

#[test]
fn what_the_iscsi_gateway_of_ceph_keeps() {
    let (desired, _) = imported(CEPH_ISCSI);
    assert_eq!(desired.listen, ["iscsi://192.0.2.11:3260"]);
    assert_eq!(desired.iscsi.name.as_ref().unwrap().as_str(), "iqn.2003-01.com.example:store");
    let [store, test] = &desired.subsystems[..] else { panic!("{desired:?}") };
    assert_eq!(
        (store.nqn.as_str(), &store.hosts),
        ("nqn.2003-01.com.example:store", &Access::Only([].into()))
    );
    let name = |name: &&str| Name::new(&format!("iqn.1994-05.com.example:{name}")).unwrap();
    let names = |names: &[&str]| Access::Only(names.iter().map(name).collect());
    // Initiator two has no user, and cannot log in where CHAP is demanded. The other target demands
    // CHAP, too, and has no users here.
    assert_eq!((&store.initiators, &test.initiators), (&names(&["one"]), &names(&[])));
    let [user] = &desired.iscsi.chap[..] else { panic!("{desired:?}") };
    assert_eq!((user.credentials.name.as_str(), user.initiators.len()), ("one-user", 1));
    assert_eq!(desired.iscsi.chap_target.as_ref().unwrap().name, "store-user");
    let told: Vec<_> = store
        .namespaces
        .iter()
        .map(|it| (it.nsid.0, it.source.as_str(), it.initiators.clone()))
        .collect();
    assert_eq!(told, [(1, "rbd:rbd/mail", names(&["one"])), (2, "rbd:vms/web_1", names(&["one"]))]);
    assert_eq!(
        test.namespaces.iter().map(|it| it.source.as_str()).collect::<Vec<_>>(),
        ["readonly:rbd:vms/spare"]
    );
}

#[test]
fn what_the_iscsi_gateway_of_ceph_loses_is_told() {
    let left = imported(CEPH_ISCSI).1.join("\n");
    for part in [
        "gateway gw2.example listens at iscsi://[2001:db8::12]:3260",
        "iqn.2003-01.com.example:test is another target",
        "as LUN 5: in weft it is LUN 1 for all",
        "initiators log in as \"one-user\": write the password into one-user.secret",
        "proves itself to initiators as \"store-user\"",
        "iqn.1994-05.com.example:two is not admitted",
        "iqn.2003-01.com.example:test demands passwords",
        "discovery demands",
        "settings of LIO: max_data_area_mb",
        "serves vms/gone, whose",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn a_group_gets_no_passwords_and_no_addresses_from_the_iscsi_gateway_of_ceph() {
    let (toml, _) = import(CEPH_ISCSI, "gateway.json", false).unwrap();
    assert!(
        !toml.contains("never-shown") && !toml.contains("bmV2ZXI"),
        "no password is carried over"
    );
    let (toml, left) = import(CEPH_ISCSI, "gateway.json", true).unwrap();
    assert!(
        toml.contains("rbd:rbd/mail") && !toml.contains("\nlisten") && !toml.contains("\n[iscsi"),
        "{toml}"
    );
    assert!(
        left.iter().any(|it| it.ends_with("give all gateways --iqn iqn.2003-01.com.example:store")),
        "{left:?}"
    );
    // The gateways have the passwords, so that nobody is admitted before they do.
    let group = crate::config::group::read(&toml, "gateway.toml").unwrap();
    for subsystem in &group.subsystems {
        assert_eq!(subsystem.initiators, Access::Only([].into()), "{toml}");
    }
    let said = "--login-secret-file for one-user, and then admit iqn.1994-05.com.example:one";
    assert!(left.iter().any(|it| it.ends_with(said)), "{left:?}");
}

#[test]
fn an_old_configuration_of_the_iscsi_gateway_of_ceph_is_refused() {
    let old =
        import(&CEPH_ISCSI.replace("\"version\": 11", "\"version\": 9"), "gateway.json", false)
            .unwrap_err()
            .to_string();
    assert!(old.contains("version 9") && old.contains("converts it"), "{old}");
}

#[test]
fn what_is_left_out_is_told() {
    let calls = |bdev: &str, nvmf: &str| {
        let text = format!(
            r#"{{"subsystems": [{{"subsystem": "bdev", "config": [{bdev}]}}, {{"subsystem": "nvmf", "config": [
            {{"method": "nvmf_create_subsystem", "params": {{"nqn": "nqn.2026-01.example:a", "allow_any_host": true}}}}, {nvmf}]}}]}}"#
        );
        import(&text, "config.json", false).unwrap()
    };
    let serve = |options: &str| {
        format!(
            r#"{{"method": "nvmf_subsystem_add_ns", "params": {{"nqn": "nqn.2026-01.example:a", "namespace": {{"bdev_name": "A"{options}}}}}}}"#
        )
    };
    let aio = r#"{"method": "bdev_aio_create", "params": {"name": "A", "filename": "/a", "block_size": 512, "readonly": true}}"#;
    let (toml, left) = calls(aio, &serve(r#", "ptpl_file": "/p""#));
    assert!(toml.contains("read_only = true"), "{toml}");
    let left = left.join("\n");
    assert!(
        left.contains("keeps reservations in /p") && left.contains("no TCP listener"),
        "{left}"
    );
    let remote = r#"{"method": "bdev_nvme_attach_controller", "params": {"name": "A", "trtype": "TCP", "traddr": "192.0.2.1",
        "trsvcid": "4420", "subnqn": "nqn.2026-01.example:b", "psk": "hidden", "hostnqn": "nqn.2026-01.example:h"}}"#;
    let (toml, left) = calls(remote, &serve(""));
    let left = left.join("\n");
    assert!(left.contains("A has a psk: A.source.keys must hold it"), "{left}");
    let connect = "[connect]\nhostnqn = \"nqn.2026-01.example:h\"\ntls = true\ntls-key-file = \"A.source.keys\"\n";
    assert!(toml.contains(connect) && !toml.contains("hidden"), "{toml}");
    let huge = r#"{"method": "bdev_null_create", "params": {"name": "A", "num_blocks": 18446744073709551615, "block_size": 4096}}"#;
    assert!(
        calls(huge, &serve("")).1.join("\n").contains("bdev_null_create A is not carried over")
    );
    let text = r#"{"subsystems": [{"nqn": "nqn.2026-01.example:a", "namespaces": [{"nsid": {}, "device": {"path": "/a"}}]}]}"#;
    assert!(import(text, "config.json", false).unwrap().1.join("\n").contains("not a number"));
}

#[test]
fn another_path_to_a_controller_is_a_path() {
    let by = |address: &str, nqn: &str| {
        format!(
            r#"{{"method": "bdev_nvme_attach_controller", "params": {{"name": "A", "trtype": "TCP", "traddr": "{address}",
            "trsvcid": "4420", "subnqn": "nqn.2026-01.example:{nqn}", "multipath": "multipath"}}}}"#
        )
    };
    for (nqn, encoded) in [("b", "b"), ("b/c", "b%2Fc")] {
        let bdev = [("1", nqn), ("2", nqn), ("2", nqn), ("1", nqn), ("3", "c")]
            .map(|(at, nqn)| by(&format!("192.0.2.{at}"), nqn))
            .join(", ");
        let text = format!(
            r#"{{"subsystems": [{{"subsystem": "bdev", "config": [{bdev}]}}, {{"subsystem": "nvmf", "config": [
            {{"method": "nvmf_create_subsystem", "params": {{"nqn": "nqn.2026-01.example:a", "allow_any_host": true}}}},
            {{"method": "nvmf_subsystem_add_ns", "params": {{"nqn": "nqn.2026-01.example:a", "namespace": {{"bdev_name": "An7"}}}}}}]}}]}}"#
        );
        let (toml, left) = import(&text, "config.json", false).unwrap();
        let url = |at: u8| format!("nvme+tcp://192.0.2.{at}:4420/nqn.2026-01.example:{encoded}/7");
        let expected = format!("source = \"{}\"\npaths = [\"{}\"]\n", url(1), url(2));
        assert!(toml.contains(&expected), "{toml}");
        let left = left.join("\n");
        assert!(left.contains("to another subsystem: nvme+tcp://192.0.2.3"), "{left}");
        assert!(!left.contains("by hand"), "{left}");
    }
}

/// A path that ends like an option of weft's is one nevertheless.
#[test]
fn paths_stay_what_they_are() {
    let path = "/dev/weft-import-none,uuid=b";
    let of_nvmet = format!(
        r#"{{"hosts": [], "ports": [], "subsystems": [{{"nqn": "nqn.2026-01.example:a", "namespaces": [{{"nsid": 1, "enable": 1, "device": {{"path": "{path}"}}}}]}}]}}"#
    );
    let of_spdk = format!(
        r#"{{"subsystems": [{{"subsystem": "bdev", "config": [{{"method": "bdev_aio_create", "params": {{"name": "A", "filename": "{path}", "block_size": 4096}}}}]}},
        {{"subsystem": "nvmf", "config": [{{"method": "nvmf_create_subsystem", "params": {{"nqn": "nqn.2026-01.example:a", "allow_any_host": true}}}},
        {{"method": "nvmf_subsystem_add_ns", "params": {{"nqn": "nqn.2026-01.example:a", "namespace": {{"bdev_name": "A"}}}}}}]}}]}}"#
    );
    let of_tgt = format!("<target iqn.2026-01.example:a>\n backing-store {path}\n</target>\n");
    for text in [of_nvmet, of_spdk, of_tgt] {
        let (toml, _) = import(&text, "config", false).unwrap();
        assert!(toml.contains(&format!("source = \"{path},")), "{toml}");
    }
}

#[test]
fn other_files_are_refused() {
    for text in ["", "[]", "{}", r#"{"subsystems": [{"name": "x"}]}"#, r#"{"subsystems": []}"#] {
        assert!(
            import(text, "other.json", false).unwrap_err().to_string().starts_with("other.json: "),
            "{text}"
        );
    }
}
