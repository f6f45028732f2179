//! Bytes from a controller may be anything: no decoder panics on them, and what it understood it
//! writes down the same way again.

use proptest::prelude::*;
use weft_proto::nvme::feature::{AsyncEvent, QueueCounts};
use weft_proto::nvme::host::{RemoteController, RemoteNamespace};
use weft_proto::nvme::identify::{
    CommandSetCombinations, ControllerList, IdentifyController, IdentifyIndependentNamespace,
    IdentifyNamespace, IdentifyNvmController, IdentifyNvmNamespace, NamespaceDescriptors,
    NamespaceList,
};
use weft_proto::nvme::log_page::{
    DiscoveryEntry, DiscoveryHeader, EffectsLog, ErrorEntry, FeatureEffectsLog, FirmwareSlotLog,
    SmartLog, SupportedLogPages,
};
use weft_proto::nvme::property::Capabilities;
use weft_proto::nvme::types::Nsid;

/// Up to a little more than a data structure, mostly zeroes or mostly noise.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), any::<u8>()];
    prop_oneof![
        proptest::collection::vec(byte, 4096..4100),
        proptest::collection::vec(any::<u8>(), 4096),
        proptest::collection::vec(any::<u8>(), 0..4096),
    ]
}

/// Decoding, encoding and decoding gives the same value.
macro_rules! stable {
    ($bytes:expr, $($structure:ty),*) => {$(
        if let Ok(value) = <$structure>::decode($bytes) {
            let _ = format!("{value:?}");
            let again = <$structure>::decode(&value.encode());
            prop_assert_eq!(again, Ok(value));
        }
    )*};
}

proptest! {
    #![proptest_config(weft_testing::properties!(300))]

    #[test]
    fn structures(bytes in bytes()) {
        stable!(
            &bytes, IdentifyController, IdentifyNamespace, IdentifyIndependentNamespace, IdentifyNvmNamespace,
            IdentifyNvmController, CommandSetCombinations, NamespaceList, ControllerList, NamespaceDescriptors,
            SupportedLogPages, ErrorEntry, SmartLog, FirmwareSlotLog, EffectsLog, FeatureEffectsLog, DiscoveryHeader,
            DiscoveryEntry
        );
    }

    #[test]
    fn descriptors_that_nearly_fit(kinds in proptest::collection::vec((0u8..6, 0u8..20), 0..400)) {
        let mut bytes: Vec<u8> = kinds.iter().flat_map(|&(kind, len)| {
            [kind, len, 0, 0].into_iter().chain(core::iter::repeat_n(kind, len.into()))
        }).collect();
        bytes.resize(4096, 0);
        stable!(&bytes, NamespaceDescriptors);
    }

    #[test]
    fn namespaces(namespace in bytes(), controller in bytes(), capabilities: u64, data_shift in 0u8..20) {
        let (Ok(mut id), Ok(identify)) = (IdentifyNamespace::decode(&namespace), IdentifyController::decode(&controller)) else {
            return Ok(());
        };
        id.flbas = 0;
        id.lbaf[0].ds = data_shift;
        id.lbaf[0].ms = 0;
        id.dps = 0;
        id.nsze %= 1 << 48;
        let controller = RemoteController {
            capabilities: Capabilities(capabilities),
            identify: Box::new(identify),
            nvm: IdentifyNvmController::decode(&namespace).ok(),
            ..Default::default()
        };
        if let Ok(Some(found)) = RemoteNamespace::derive(Nsid(1), id, &NamespaceDescriptors::default(), &controller) {
            prop_assert!(found.blocks > 0 && found.block_bytes.is_power_of_two());
            prop_assert!((1..=65536).contains(&found.transfer_blocks_max));
            prop_assert!(found.compare_and_write_blocks_max <= found.transfer_blocks_max);
            prop_assert!(found.write_zeroes.is_none_or(|zeroes| (1..=65536).contains(&zeroes.blocks_max)));
            prop_assert!(found.deallocate.is_none_or(|ranges| (1..=256).contains(&ranges.ranges_max)));
        }
    }

    #[test]
    fn dwords(dword: u32) {
        let event = AsyncEvent::decode(dword);
        prop_assert_eq!(AsyncEvent::decode(event.encode()), event);
        prop_assert_eq!(QueueCounts::decode(dword).encode(), dword);
    }
}
