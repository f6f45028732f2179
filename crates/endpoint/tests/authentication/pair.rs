//! Both ends keep the rules.

use super::{
    Demanding, demand, host, knows, options, relay_that_hangs_up, secret, subsystem, with,
};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::Authentication;
use weft_endpoint::source::HostSecrets;
use weft_endpoint::source::nvme::tcp::{Session, discover};
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::auth::{Group, Hash};
use weft_proto::nvme::types::{Id128, Nqn};

#[test]
fn whoever_knows_the_secret_is_let_in_on_every_queue() {
    let target = Demanding::new(knows(&[1]));
    target.uses(with(1)).unwrap();
    let both = Authentication {
        groups: vec![Group::Ffdhe2048],
        hashes: vec![Hash::Sha512],
        ..knows(&[1])
    };
    target.demand(both);
    target.uses(with(1)).unwrap();
}

#[test]
fn whoever_does_not_is_told_what_is_wrong() {
    let target = Demanding::new(knows(&[1]));
    let wrong = target.refusal(with(2));
    assert!(
        wrong.contains("--dhchap-secret-file") && wrong.contains("authentication failed"),
        "{wrong}"
    );
    let missing = target.refusal(HostSecrets::default());
    assert!(
        missing.contains("this host has no secret") && missing.contains("--dhchap-secret-file"),
        "{missing}"
    );
    let other = HostSecrets { groups: vec![Group::Ffdhe2048], ..with(1) };
    let said = target.refusal(other);
    assert!(said.contains("--dhchap-dhgroup"), "{said}");
    // A host that the target knows nothing of.
    target.demand(Authentication { hosts: [(subsystem(), vec![secret(1)])].into(), ..knows(&[]) });
    target.refusal(with(1));
    target.demand(knows(&[1]));
    target.uses(with(1)).unwrap();
}

#[test]
fn the_controller_proves_who_it_is() {
    let own = |byte| HostSecrets { controller: Some(secret(byte)), ..with(1) };
    let target = Demanding::new(Authentication { controller: Some(secret(7)), ..knows(&[1]) });
    target.uses(own(7)).unwrap();
    let another = target.refusal(own(8));
    assert!(another.contains("--dhchap-ctrl-secret-file"), "{another}");
    // It has none.
    target.demand(knows(&[1]));
    target.refusal(own(7));
    // It does not even ask.
    demand(&target.inventory, &subsystem(), None);
    let silent = target.refusal(own(7));
    assert!(silent.contains("does not prove who it is"), "{silent}");
    target.uses(with(1)).unwrap();
}

#[test]
fn whoever_finds_the_controller_wrong_says_so_also_where_that_one_hangs_up() {
    let target = Demanding::new(Authentication { controller: Some(secret(7)), ..knows(&[1]) });
    let address = relay_that_hangs_up(target.target.addresses()[0]);
    let secrets = HostSecrets { controller: Some(secret(8)), ..with(1) };
    let url = format!("nvme+tcp://{address}/{}", subsystem());
    let error = weft_endpoint::open(&url, &options(secrets)).map(drop).expect_err("it is refused");
    let text = error.to_string();
    assert!(text.contains("does not know the secret of --dhchap-ctrl-secret-file"), "{text}");
}

#[test]
fn a_secret_is_changed_while_both_are_known() {
    let target = Demanding::new(knows(&[1]));
    let device = weft_endpoint::open(&target.url(), &options(with(1))).unwrap();
    target.demand(knows(&[2, 1]));
    target.uses(with(1)).unwrap();
    target.uses(with(2)).unwrap();
    target.demand(knows(&[2]));
    target.refusal(with(1));
    target.uses(with(2)).unwrap();
    // Who is there already stays.
    let disk = weft_endpoint::Disk::on(device).unwrap();
    disk.read(0, &mut [0; 512]).unwrap();
}

#[test]
fn discovery_is_open_unless_it_is_not() {
    let target = Demanding::new(knows(&[1]));
    let url = NvmeUrl::parse(&target.url()).unwrap();
    assert_eq!(discover(&url.address, &options(HostSecrets::default())).unwrap().entries.len(), 2);
    demand(&target.inventory, &Nqn::discovery(), Some(knows(&[1])));
    assert!(discover(&url.address, &options(HostSecrets::default())).is_err());
    assert_eq!(discover(&url.address, &options(with(1))).unwrap().entries.len(), 2);
}

#[test]
fn all_hosts_may_share_a_secret() {
    let demanded = Authentication { others: vec![secret(3)], ..knows(&[1]) };
    let target = Demanding::new(demanded);
    target.uses(with(1)).unwrap();
    target.refusal(with(3));
    let url = NvmeUrl::parse(&target.url()).unwrap();
    let identity = HostIdentity { id: Id128([4; 16]), ..crate::hostile::tcp::identity("other") };
    let other = weft_endpoint::ConnectOptions { host: Some(identity), ..options(with(3)) };
    assert_eq!(Session::connect(&url, &other).unwrap().namespaces().len(), 2);
    assert_ne!(host(), crate::hostile::tcp::identity("other"));
}
