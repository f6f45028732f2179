//! Values that others have published: libnvme's `tests/psk.c` (the key is that of the
//! specification's example), and those of the kernel's `drivers/nvme/common/tests/auth_kunit.c`.
//! TLS PSKs of version 0, and of the older derivation, were calculated with another implementation
//! of HMAC from the derivation as libnvme has it.

use super::*;
use crate::nvme::types::Nqn;

const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";
const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const KEY_384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

/// Of libnvme: the key, whether its derivation is the older one, and its identity of version 1.
const IDENTITIES: [(&str, bool, &str); 4] = [
    (
        KEY_256,
        false,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
    ),
    (
        KEY_384,
        false,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
    ),
    (
        KEY_256,
        true,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
    ),
    (
        KEY_384,
        true,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
    ),
];

/// The TLS PSKs of those identities, of version 1 and of version 0.
const TLS_PSKS: [[&str; 2]; 4] = [
    [
        "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
        "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
    ],
    [
        "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
        "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d",
    ],
    [
        "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
        "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb",
    ],
    [
        "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48d3014aa8d76ad80107e4f5c9f27e2149",
        "2ee4754186a625b28a3936ef4a40d839c3ad958b2e017562ee07e2501f172ce999dc9c29033ea7ee33f814f192c13f47",
    ],
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn derivation(is_compat: bool) -> Derivation {
    if is_compat { Derivation::Compat } else { Derivation::Standard }
}

fn names() -> (Nqn, Nqn) {
    (Nqn::new(HOST).unwrap(), Nqn::new(SUBSYSTEM).unwrap())
}

fn offered(file: &str) -> PskIdentity {
    let (host, subsystem) = names();
    PskKeys::parse(file).unwrap().offer(&host, &subsystem).unwrap()
}

#[test]
fn identities_are_those_of_libnvme() {
    for ((key, is_compat, expected), psks) in IDENTITIES.into_iter().zip(TLS_PSKS) {
        let key = InterchangeKey::parse(key).unwrap();
        let retained = key.retained(HOST, derivation(is_compat)).unwrap();
        for (version, psk) in [IdentityVersion::V1, IdentityVersion::V0].into_iter().zip(psks) {
            let names = (HOST, SUBSYSTEM);
            let identity = PskIdentity::new(
                &retained,
                key.cipher_hash(),
                false,
                version,
                names,
                derivation(is_compat),
            )
            .unwrap();
            assert_eq!(hex(identity.psk.as_bytes()), psk);
            match version {
                IdentityVersion::V1 => assert_eq!(identity.text, expected),
                IdentityVersion::V0 => {
                    assert_eq!(
                        identity.text,
                        format!("NVMe0R{:02} {HOST} {SUBSYSTEM}", key.cipher_hash().id())
                    );
                }
            }
        }
    }
}

#[test]
fn generated_keys_are_those_of_the_kernel() {
    let expected = [
        (
            Hash::Sha256,
            "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
            "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
            "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
        ),
        (
            Hash::Sha384,
            "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e118749001ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
            "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
            "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d0898fff15bb8b77119d2be0aac423e7590",
        ),
    ];
    for (hash, psk, digest, tls_psk) in expected {
        let bytes = |first: u8, step: i16| {
            (0..hash.bytes())
                .map(|n| (i16::from(first) + step * n as i16) as u8)
                .collect::<Vec<_>>()
        };
        let session = Digest::new(&bytes(b'A', 1));
        let generated = GeneratedPsk::new(hash, &session, &bytes(0, 1), &bytes(0xff, -1));
        assert_eq!(hex(generated.key.as_bytes()), psk);
        let identity = PskIdentity::new(
            &generated.key,
            hash,
            true,
            IdentityVersion::V1,
            ("hostnqn", "subsysnqn"),
            Derivation::Standard,
        );
        let identity = identity.unwrap();
        assert_eq!(identity.text, format!("NVMe1G{:02} hostnqn subsysnqn {digest}", hash.id()));
        assert_eq!(hex(identity.psk.as_bytes()), tls_psk);
    }
}

#[test]
fn a_key_without_a_hash_is_retained_as_it_is() {
    let key = InterchangeKey::parse(&KEY_256.replace(":01:", ":00:")).unwrap();
    assert_eq!((key.hash(), key.key_bytes(), key.cipher_hash()), (None, 32, Hash::Sha256));
    assert_eq!(key.retained(HOST, Derivation::Standard).unwrap().as_bytes(), key.key());
}

#[test]
fn what_is_wrong_with_a_key_is_named() {
    let is = |text: &str| InterchangeKey::parse(text).err();
    assert_eq!(InterchangeKey::parse(&format!(" {KEY_256}\n")).unwrap().text().as_str(), KEY_256);
    assert_eq!(is(""), Some(KeyError::Form));
    assert_eq!(is(&KEY_256[..KEY_256.len() - 1]), Some(KeyError::Form));
    assert_eq!(is(&KEY_256.replace("-1:", "-2:")), Some(KeyError::Form));
    assert_eq!(is(&KEY_256.replace(":01:", ":03:")), Some(KeyError::Hash));
    assert_eq!(is(&KEY_256.replace(":01:", ":02:")), Some(KeyError::Length));
    assert_eq!(is(&KEY_256.replace("VRLb", "VR*b")), Some(KeyError::Base64));
    assert_eq!(is(&KEY_256.replace("VRLb", "VRLc")), Some(KeyError::Crc));
}

#[test]
fn identities_are_read_as_they_are_written() {
    for (_, _, text) in IDENTITIES {
        let named = Named::parse(text.as_bytes()).unwrap();
        assert_eq!(
            (named.version, named.hostnqn, named.subnqn, named.is_generated),
            (IdentityVersion::V1, HOST, SUBSYSTEM, false)
        );
        for cut in 0..text.len() - named.digest.len() {
            assert_eq!(Named::parse(&text.as_bytes()[..cut]), None, "cut at {cut}");
        }
    }
    let old = Named::parse(b"NVMe0G02 h s").unwrap();
    assert_eq!(
        (old.version, old.is_generated, old.hash, old.digest),
        (IdentityVersion::V0, true, Hash::Sha384, "")
    );
    let wrong: [&[u8]; 9] = [
        b"NVMe0R01 h s d",
        b"NVMe1R01 h s",
        b"NVMe2R01 h s",
        b"NVMe0X01 h s",
        b"NVMe0R03 h s",
        b"NVMe0R01  s",
        b"NVMe1R01 h s d e",
        b"NVMe0R01 \xff s",
        b"Client_identity",
    ];
    assert!(wrong.iter().all(|identity| Named::parse(identity).is_none()));
}

#[test]
fn an_identity_that_no_derivation_can_name_has_no_key() {
    let key = InterchangeKey::parse(KEY_256).unwrap();
    let retained = key.retained(HOST, Derivation::Standard).unwrap();
    let name = "n".repeat(Nqn::MAX_BYTES);
    let of = |version, names| {
        PskIdentity::new(&retained, Hash::Sha256, false, version, names, Derivation::Standard)
            .is_some()
    };
    assert!(!of(IdentityVersion::V0, (&name, &name)), "no context is that long");
    assert!(of(IdentityVersion::V1, (&name, &name)));
    // 9 bytes in front of the first name, a space behind it.
    assert!(of(IdentityVersion::V0, (&name, &name[..255 - 10 - 223])));
    assert!(!of(IdentityVersion::V0, (&name, &name[..256 - 10 - 223])));
    assert!(
        !of(IdentityVersion::V1, ("two words", SUBSYSTEM)) && !of(IdentityVersion::V1, (HOST, ""))
    );
}

#[test]
fn a_controller_finds_the_keys_of_the_hosts_that_it_knows() {
    let (host, subsystem) = names();
    let keys = PskKeys::parse(&format!(
        "# comment\n\n{HOST} {KEY_256}\n  {HOST} {SUBSYSTEM} {KEY_384} \n"
    ))
    .unwrap();
    assert_eq!(keys.len(), 2);
    for line in [KEY_256, KEY_384, &format!("compat {KEY_256}"), &format!("identity=0 {KEY_384}")] {
        let offered = offered(line);
        let found = keys.find(offered.text.as_bytes()).unwrap();
        assert_eq!(
            (found.psk.as_bytes(), found.hash),
            (offered.psk.as_bytes(), offered.hash),
            "{}",
            offered.text
        );
    }
    // Version 0 does not tell how the key was derived, so a file has to.
    let old = offered(&format!("identity=0 compat {KEY_256}"));
    assert_ne!(keys.find(old.text.as_bytes()).unwrap().psk.as_bytes(), old.psk.as_bytes());
    let keys = PskKeys::parse(&format!("compat {KEY_256}")).unwrap();
    assert_eq!(keys.find(old.text.as_bytes()).unwrap().psk.as_bytes(), old.psk.as_bytes());
    let of = |line: &str| PskKeys::parse(line).unwrap();
    let elsewhere =
        [format!("nqn.other {KEY_256}"), format!("{HOST} nqn.other {KEY_256}"), KEY_384.to_owned()];
    for line in &elsewhere {
        assert!(of(line).find(offered(KEY_256).text.as_bytes()).is_none(), "{line}");
    }
    assert!(
        of(&elsewhere[0]).offer(&host, &subsystem).is_none()
            && of(&elsewhere[1]).offer(&host, &subsystem).is_none()
    );
    assert!(of(KEY_256).find(b"NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys AAAA").is_none());
    assert!(of(KEY_256).find(b"Client_identity").is_none() && of("").find(b"").is_none());
}

#[test]
fn two_keys_of_one_host_are_told_apart() {
    let other = InterchangeKey::of_key(&[7; 32], Some(Hash::Sha256)).unwrap().text();
    let keys = PskKeys::parse(&format!("{HOST} {KEY_256}\n{HOST} {}\n", other.as_str())).unwrap();
    let (first, second) = (offered(KEY_256), offered(&other));
    for offered in [first, second] {
        assert_eq!(
            keys.find(offered.text.as_bytes()).unwrap().psk.as_bytes(),
            offered.psk.as_bytes()
        );
    }
}

#[test]
fn an_exported_psk_is_read() {
    let offered_psk = offered(&format!("identity=0 {KEY_256}"));
    let psk =
        InterchangeKey::of_key(offered_psk.psk.as_bytes(), Some(Hash::Sha256)).unwrap().text();
    for psk in [psk.to_string(), psk.replace("-1:", "-0:")] {
        let keys = PskKeys::parse(&format!("{} {psk}\n", offered_psk.text)).unwrap();
        let found = keys.find(offered_psk.text.as_bytes()).unwrap();
        assert_eq!(found.psk.as_bytes(), offered_psk.psk.as_bytes());
        let (host, subsystem) = names();
        assert_eq!(keys.offer(&host, &subsystem).unwrap().text, offered_psk.text);
        assert!(keys.offer(&subsystem, &host).is_none());
    }
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line() {
    let is = |text: &str| PskKeys::parse(text).err().map(|error| (error.line, error.problem));
    assert_eq!(is("# nothing\n"), None);
    assert_eq!(is(&format!("\n{KEY_256}x")), Some((2, KeyError::Form.into())));
    assert_eq!(is(&format!("identity=2 {KEY_256}")), Some((1, KeyFileProblem::Words)));
    assert_eq!(is(&format!("a b c {KEY_256}")), Some((1, KeyFileProblem::Words)));
    assert_eq!(
        is(&format!("{} {KEY_256}", "n".repeat(224))),
        Some((1, KeyFileProblem::Name(crate::nvme::types::NqnError::TooLong)))
    );
    assert_eq!(is(&format!("NVMe1G01 h s d {KEY_256}")), Some((1, KeyFileProblem::Generated)));
    assert_eq!(is(&format!("NVMe0R02 h s {KEY_256}")), Some((1, KeyError::Length.into())));
    let many = format!("{KEY_256}\n").repeat(crate::limits::PSK_KEYS_MAX + 1);
    assert_eq!(is(&many), Some((crate::limits::PSK_KEYS_MAX + 1, KeyFileProblem::TooMany)));
}
