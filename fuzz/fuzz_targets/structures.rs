//! Data structures of a controller's making: Identify, log pages with the discovery log, Connect's
//! data. What was understood is written down the same way again.

use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::identify::{
    CommandSetCombinations, ControllerList, IdentifyController, IdentifyIndependentNamespace,
    IdentifyNamespace, IdentifyNvmController, IdentifyNvmNamespace, NamespaceDescriptors,
    NamespaceList,
};
use weft_proto::nvme::log_page::{
    AnaGroupDescriptor, AnaGroups, AnaHeader, CrossResetEntry, CrossResetHeader, DiscoveryEntry,
    DiscoveryHeader, EffectsLog, ErrorEntry, FeatureEffectsLog, FirmwareSlotLog, SmartLog,
    SupportedLogPages,
};

/// Decoding, encoding and decoding gives the same value, for the structure that the first byte
/// names.
macro_rules! stable {
    ($kind:expr, $bytes:expr, $($number:literal $structure:ty),* $(,)?) => {
        match $kind {
            $($number => {
                if let Ok(value) = <$structure>::decode($bytes) {
                    let _ = format!("{value:?}");
                    assert_eq!(<$structure>::decode(&value.encode()), Ok(value));
                }
            })*
            _ => {}
        }
    };
}

pub fn run(input: (u8, &[u8])) {
    let (kind, bytes) = input;
    // Structures have up to 4096 bytes; the fuzzer need not find each of the zeroes.
    let mut padded = bytes.to_vec();
    if kind & 0x80 == 0 {
        padded.resize(4096, 0);
    }
    stable!(
        kind & 0x7f, &padded,
        0 IdentifyController, 1 IdentifyNamespace, 2 IdentifyIndependentNamespace, 3 IdentifyNvmNamespace,
        4 IdentifyNvmController, 5 CommandSetCombinations, 6 NamespaceList, 7 ControllerList, 8 NamespaceDescriptors,
        9 SupportedLogPages, 10 ErrorEntry, 11 SmartLog, 12 FirmwareSlotLog, 13 EffectsLog, 14 FeatureEffectsLog,
        15 DiscoveryHeader, 16 DiscoveryEntry, 17 ConnectData,
        18 AnaHeader, 19 AnaGroupDescriptor, 20 CrossResetHeader, 21 CrossResetEntry,
    );
    if kind == 22 {
        let named = AnaGroups::new(bytes)
            .into_iter()
            .flatten()
            .flatten()
            .map(|(_, namespaces)| namespaces.count());
        assert!(named.sum::<usize>() <= bytes.len() / 4);
    }
}
