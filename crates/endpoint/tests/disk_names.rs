//! Names that are configured are those that hosts see, by NVMe and by iSCSI.

use crate::served::{self, Served};
use std::sync::Arc;
use weft_block::{BlockDevice, Identity, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{
    InventoryBuilder, InventoryError, LiveInventory, NamespaceConfig, ScsiIdentity,
    SubsystemConfig, SubsystemNumbers,
};
use weft_endpoint::{ConnectOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:named").unwrap()
}

fn numbers(serial: &str, model: &str) -> SubsystemNumbers {
    let (serial, model) = (serial.parse().unwrap(), model.parse().unwrap());
    SubsystemNumbers { serial: Some(serial), model: Some(model), queues: None }
}

fn scsi() -> ScsiIdentity {
    ScsiIdentity {
        serial: Some("beaf11".parse().unwrap()),
        vendor: Some("IET".parse().unwrap()),
        product: Some("VIRTUAL-DISK".parse().unwrap()),
        naa: Some("60000000000000000e00000000010001".parse().unwrap()),
        t10_id: Some("IET     00010001".parse().unwrap()),
    }
}

fn disk() -> Arc<dyn BlockDevice> {
    weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap()
}

fn start(listen: &str) -> (Arc<LiveInventory>, Served<Exports>) {
    let mut builder = InventoryBuilder::default();
    let numbers = numbers("2b1dc6c0e2e47d5a8a40", "Linux");
    builder.add_subsystem(SubsystemConfig { numbers, ..SubsystemConfig::new(nqn()) }).unwrap();
    let config = NamespaceConfig { scsi: scsi(), ..NamespaceConfig::new(disk()) };
    builder.add_namespace(&nqn(), Nsid(1), config).unwrap();
    let inventory = LiveInventory::new(builder.build().unwrap());
    let name = Some(Name::new("iqn.2026-01.example.weft:named").unwrap());
    let iscsi = Settings { name, ..Settings::default() };
    let config = ExportConfig {
        inventory: Arc::clone(&inventory),
        iscsi,
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    let start = |loops: &[RemoteLoop]| export::start(&config, &[listen.to_owned()], loops).unwrap();
    let served = Served::start(&served::loops(1), start);
    (inventory, served)
}

fn seen(url: &str) -> (Option<String>, Option<String>) {
    let Identity { serial, model, .. } = open(url, &ConnectOptions::default()).unwrap().identity();
    (serial, model)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn nvme_hosts_see_serial_and_model_of_the_subsystem() {
    let (inventory, served) = start("nvme+tcp://127.0.0.1:0");
    let url = format!("{}/1", served.urls()[0]);
    let before = open(&url, &ConnectOptions::default()).unwrap();
    assert_eq!(seen(&url), (text("2b1dc6c0e2e47d5a8a40"), text("Linux")));
    let change = |builder: &mut InventoryBuilder| {
        builder.subsystem_mut(&nqn())?.numbers = numbers("other", "SPDK bdev Controller");
        Ok(())
    };
    inventory.change(change).unwrap();
    assert_eq!(seen(&url), (text("other"), text("SPDK bdev Controller")), "who comes later");
    assert_eq!(before.identity().serial, text("2b1dc6c0e2e47d5a8a40"));
}

#[test]
fn initiators_see_the_names_of_the_logical_unit() {
    let (inventory, served) = start("iscsi://127.0.0.1:0");
    let url = format!("{}/0", served.urls()[0].trim_end_matches("/0"));
    assert_eq!(seen(&url), (text("beaf11"), text("IET VIRTUAL-DISK")));
    let twice = |builder: &mut InventoryBuilder| {
        let config = NamespaceConfig { scsi: scsi(), ..NamespaceConfig::new(disk()) };
        builder.add_namespace(&nqn(), Nsid(2), config).map(drop)
    };
    let naa = scsi().naa.unwrap();
    assert_eq!(inventory.change(twice).unwrap_err(), InventoryError::DuplicateNaa(naa));
}
