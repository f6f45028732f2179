//! Errors of opening an image, and options of opening it.

use super::image::{open, try_open};
use weft_block::ErrorKind;
use weft_testing::ceph::CephCluster;

#[test]
fn what_is_not_there_is_told_with_a_way_out() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("there", "8M");
    let fails = |url: &str, kind| {
        let error = try_open(url).err().unwrap_or_else(|| panic!("{url} opens"));
        assert_eq!(error.kind(), kind, "{error}");
        error.to_string()
    };
    assert!(fails(&cluster.url("rbd/absent"), ErrorKind::NotFound).contains("rbd ls"));
    assert!(fails(&cluster.url("absent/there"), ErrorKind::NotFound).contains("ceph osd pool ls"));
    assert!(fails(&cluster.url("rbd/tenant/there"), ErrorKind::NotFound).contains("rbd ls"));
    assert!(fails(&cluster.url("rbd/there@absent"), ErrorKind::NotFound).contains("rbd snap ls"));
    assert!(
        fails(&format!("rbd:{image},conf=/absent/ceph.conf"), ErrorKind::NotFound)
            .contains("conf=FILE")
    );
    let said = fails(&cluster.url("rbd/there,id=nobody"), ErrorKind::PermissionDenied);
    assert!(said.contains("id=USER"), "{said}");
    open(&cluster.url("rbd/there,id=user"));
}
