//! The file system of a file: an identifier of it that outlasts restarts and is the same on every
//! machine, whether what is written there lasts, whether it is on this machine, and the block size
//! of its inodes.

use std::fs::File;
use std::path::Path;

/// Magic numbers of `linux/magic.h`.
#[cfg(target_os = "linux")]
mod magic {
    pub(super) const EXT: u32 = 0xef53;
    pub(super) const XFS: u32 = 0x5846_5342;
    pub(super) const BTRFS: u32 = 0x9123_683e;
    pub(super) const TMPFS: u32 = 0x0102_1994;
    pub(super) const RAMFS: u32 = 0x8584_58f6;
    pub(super) const OVERLAY: u32 = 0x794c_7630;
    pub(super) const AUFS: u32 = 0x6175_6673;
    pub(super) const FUSE: u32 = 0x6573_5546;
    pub(super) const ZFS: u32 = 0x2fc1_2fc1;
    /// Others of this machine: F2FS, bcachefs, FAT, exFAT, NTFS by two drivers, ReiserFS, JFS,
    /// NILFS, hugetlbfs.
    pub(super) const FURTHER: [u32; 10] = [
        0xf2f5_2010,
        0xca45_1a4e,
        0x4d44,
        0x2011_bab0,
        0x5346_544e,
        0x7366_746e,
        0x5265_4973,
        0x3153_464a,
        0x3434,
        0x9584_58f6,
    ];
}

/// An identifier of the file system of an open file, made of its UUID. `None`: it has none, or the
/// numbers of its inodes may change. The same number may be used in another subvolume, so each one
/// has an identifier of its own.
#[cfg(target_os = "linux")]
pub fn identifier(file: &File) -> Option<String> {
    match rustix::fs::fstatfs(file).ok()?.f_type as u32 {
        // The kernel makes this number of the UUID, and for Btrfs of the subvolume, too.
        magic::EXT | magic::BTRFS => {
            let made = rustix::fs::fstatvfs(file).ok()?.f_fsid;
            (made != 0).then(|| format!("{made:016x}"))
        }
        magic::XFS => xfs_uuid(file),
        _ => None,
    }
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn identifier(_: &File) -> Option<String> {
    None
}

/// Returns whether a file is on this machine, so that nobody else can change its length without
/// this system knowing. False also for kinds of file systems that are not known.
#[cfg(target_os = "linux")]
pub fn is_local(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| is_local_kind(found.f_type as u32))
}

/// Not known on this system: its files count as local.
#[cfg(not(target_os = "linux"))]
pub fn is_local(_: &File) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn is_local_kind(kind: u32) -> bool {
    use magic::{AUFS, BTRFS, EXT, FURTHER, OVERLAY, RAMFS, TMPFS, XFS, ZFS};
    // What is written to an overlay is in its upper layer, which is of this machine.
    [EXT, XFS, BTRFS, TMPFS, RAMFS, OVERLAY, AUFS, ZFS].contains(&kind) || FURTHER.contains(&kind)
}

/// The block size of the inode of a file in bytes (`i_blkbits` of the kernel). `None`: that of this
/// kind of file system is not known.
#[cfg(target_os = "linux")]
pub fn inode_block_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statfs(path).ok()?;
    inode_block_of(found.f_type as u32, u64::try_from(found.f_bsize).ok()?)
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn inode_block_bytes(_: &Path) -> Option<u64> {
    None
}

/// `f_bsize` is the block size of the super block, which inodes take over, on file systems that have
/// one. `st_blksize` is not: on XFS it is a page, the stripe width (`largeio`) or the extent of a
/// realtime file, on tmpfs a huge page.
#[cfg(target_os = "linux")]
fn inode_block_of(kind: u32, f_bsize: u64) -> Option<u64> {
    match kind {
        magic::EXT | magic::XFS | magic::BTRFS | magic::TMPFS => Some(f_bsize),
        // Its inodes always have this size, whatever the records and sectors of the pool have.
        magic::ZFS => Some(512),
        // Inodes of overlays and of file systems on servers have other sizes, or none.
        _ => None,
    }
}

/// The UUID of an XFS file system, which only this request tells without a privilege on all
/// kernels.
#[cfg(target_os = "linux")]
fn xfs_uuid(file: &File) -> Option<String> {
    use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
    /// `struct xfs_fsop_geom_v1` of `xfs_fs.h`: the UUID is at byte 64 of 112.
    #[repr(C, align(8))]
    struct Geometry {
        _numbers: [u8; 64],
        uuid: [u8; 16],
        _further: [u8; 32],
    }
    const XFS_IOC_FSGEOMETRY_V1: Opcode = opcode::read::<Geometry>(b'X', 100);
    // SAFETY: the file is on XFS, where the request fills a structure of this size and alignment,
    // in which every pattern of bits is valid, and keeps no pointer to it.
    let geometry = unsafe { ioctl(file, Getter::<XFS_IOC_FSGEOMETRY_V1, Geometry>::new()) }.ok()?;
    let is_one = geometry.uuid.iter().any(|byte| *byte != 0);
    is_one.then(|| geometry.uuid.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The kind of file system of a directory that is there or will be, if what is written there ends
/// with the system or the container. `None`: it lasts, as far as the system tells.
#[cfg(target_os = "linux")]
pub fn passing(directory: &Path) -> Option<&'static str> {
    let directory = std::path::absolute(directory).ok()?;
    let directory = directory.ancestors().find(|path| path.exists())?;
    match rustix::fs::statfs(directory).ok()?.f_type as u32 {
        magic::TMPFS => Some("a tmpfs"),
        magic::RAMFS => Some("a ramfs"),
        magic::OVERLAY | magic::AUFS => Some("an overlay"),
        // Containers of users who are not root.
        magic::FUSE => {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
            let directory = directory.canonicalize().ok()?;
            let kind = kind_of_mount(&mounts, &directory)?;
            (kind == "fuse.fuse-overlayfs").then_some("an overlay")
        }
        _ => None,
    }
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn passing(_: &Path) -> Option<&'static str> {
    None
}

/// The kind of the file system that is mounted closest above a path: of several at one place the
/// last one. A line is `36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw`.
#[cfg(target_os = "linux")]
fn kind_of_mount<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (place, kind) = line.split_once(" - ")?;
        let place = Path::new(place.split(' ').nth(4)?);
        let depth = place.components().count();
        path.starts_with(place).then_some((depth, kind.split(' ').next()?))
    };
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_the_same_for_all_its_files() {
        let dir = std::env::temp_dir();
        let path = |name: &str| dir.join(format!("weft-fs-{}-{name}", std::process::id()));
        let [a, b] = ["a", "b"].map(|name| File::create(path(name)).unwrap());
        assert_eq!(identifier(&a), identifier(&b));
        assert!(identifier(&a).is_none_or(|text| text.len() >= 16));
        ["a", "b"].iter().for_each(|name| std::fs::remove_file(path(name)).unwrap());
        // It has none.
        assert_eq!(identifier(&File::open("/proc/version").unwrap()), None);
    }

    #[test]
    fn files_on_servers_are_not_local() {
        for kind in [magic::EXT, magic::XFS, magic::BTRFS, magic::TMPFS, magic::ZFS] {
            assert!(is_local_kind(kind), "{kind:x}");
        }
        let (nfs, smb2, cifs, ceph, plan9) =
            (0x6969, 0xfe53_4d42, 0xff53_4d42, 0x00c3_6400, 0x0102_1997);
        for kind in [nfs, smb2, cifs, ceph, plan9, magic::FUSE, 0x1234_5678] {
            assert!(!is_local_kind(kind), "{kind:x}");
        }
    }

    #[test]
    fn inodes_have_the_blocks_of_their_file_system() {
        for bytes in [512, 1024, 4096, 65536] {
            for kind in [magic::EXT, magic::XFS, magic::BTRFS, magic::TMPFS] {
                assert_eq!(inode_block_of(kind, bytes), Some(bytes), "{kind:x}");
            }
        }
        // The size of records is none of inodes.
        assert_eq!(inode_block_of(magic::ZFS, 128 << 10), Some(512));
        for kind in [magic::OVERLAY, magic::FUSE, 0x6969, 0x1234_5678] {
            assert_eq!(inode_block_of(kind, 4096), None, "{kind:x}");
        }
        assert_eq!(inode_block_bytes(Path::new("/none/such")), None);
    }

    #[test]
    fn what_is_in_memory_passes() {
        assert_eq!(passing(Path::new("/proc")), None);
        if rustix::fs::statfs("/dev/shm").is_ok_and(|of| of.f_type as u32 == magic::TMPFS) {
            assert_eq!(passing(Path::new("/dev/shm")), Some("a tmpfs"));
            assert_eq!(passing(Path::new("/dev/shm/none/such")), Some("a tmpfs"));
        }
    }

    #[test]
    fn the_closest_mount_counts() {
        let mounts = "\
            22 1 0:21 / / rw - overlay overlay rw\n\
            23 22 254:1 / /var/lib rw master:1 - ext4 /dev/vdb rw\n\
            24 23 0:30 / /var/lib/weft rw - ext4 /dev/vdc rw\n\
            25 23 0:31 / /var/lib/weft rw shared:3 - fuse.fuse-overlayfs weft rw\n";
        let kind = |path: &str| kind_of_mount(mounts, Path::new(path)).unwrap();
        assert_eq!((kind("/srv"), kind("/var/library")), ("overlay", "overlay"));
        assert_eq!((kind("/var/lib/other"), kind("/var/lib")), ("ext4", "ext4"));
        assert_eq!(kind("/var/lib/weft/disks"), "fuse.fuse-overlayfs");
    }
}
