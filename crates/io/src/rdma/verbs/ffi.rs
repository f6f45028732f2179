//! The structures and numbers of rdma-core that are used here, as its headers `infiniband/verbs.h`
//! and `rdma/rdma_cma.h` define them.
//!
//! Structures that only the libraries make are declared as far as they are read. The sizes and
//! offsets below are those of the headers.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// A function of a device that is not used.
type Unused = *const c_void;

/// `ibv_context`, to the last field that is read.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut DeviceRecord,
    pub(super) ops: ContextOps,
    cmd_fd: c_int,
    async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
}

/// `ibv_context_ops`.
#[repr(C)]
pub(super) struct ContextOps {
    pub(super) unused: [Unused; 7],
    pub(super) alloc_mw: Option<unsafe extern "C" fn(pd: *mut Pd, kind: c_uint) -> *mut Mw>,
    pub(super) bind_mw: Unused,
    pub(super) dealloc_mw: Option<unsafe extern "C" fn(mw: *mut Mw) -> c_int>,
    pub(super) create_cq: Unused,
    pub(super) poll_cq:
        Option<unsafe extern "C" fn(cq: *mut Cq, entries: c_int, wc: *mut Wc) -> c_int>,
    pub(super) req_notify_cq:
        Option<unsafe extern "C" fn(cq: *mut Cq, solicited_only: c_int) -> c_int>,
    pub(super) unused_too: [Unused; 12],
    pub(super) post_send:
        Option<unsafe extern "C" fn(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int>,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(qp: *mut Qp, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int>,
    pub(super) unused_last: [Unused; 5],
}

/// `ibv_device`, to the last field that is read.
#[repr(C)]
pub(super) struct DeviceRecord {
    pub(super) ops: [Unused; 2],
    pub(super) node_type: c_int,
    pub(super) transport_type: c_int,
    pub(super) name: [c_char; 64],
}

/// `IBV_TRANSPORT_IWARP`.
pub(super) const TRANSPORT_IWARP: c_int = 1;

/// `ibv_pd`, which is not looked into.
#[repr(C)]
pub(super) struct Pd(c_void);

/// `ibv_comp_channel`, to the last field that is read.
#[repr(C)]
pub(super) struct CompChannel {
    pub(super) context: *mut Context,
    pub(super) fd: c_int,
}

/// `ibv_cq`, which is not looked into.
#[repr(C)]
pub(super) struct Cq(c_void);

/// `ibv_qp`, which is not looked into.
#[repr(C)]
pub(super) struct Qp(c_void);

/// `ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    pub(super) context: *mut Context,
    pub(super) pd: *mut Pd,
    pub(super) address: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `ibv_mw`.
#[repr(C)]
pub(super) struct Mw {
    pub(super) context: *mut Context,
    pub(super) pd: *mut Pd,
    pub(super) rkey: u32,
    pub(super) handle: u32,
    pub(super) kind: c_uint,
}

/// `IBV_MW_TYPE_2`.
pub(super) const MW_TYPE_2: c_uint = 2;

/// `ibv_device_attr`.
#[repr(C)]
pub(super) struct DeviceAttr {
    pub(super) firmware_and_guids: [u64; 10],
    pub(super) max_mr_size: u64,
    pub(super) page_size_cap: u64,
    pub(super) vendor: [u32; 3],
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    pub(super) max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    pub(super) max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    pub(super) max_ee_rd_atom: c_int,
    pub(super) max_res_rd_atom: c_int,
    pub(super) max_qp_init_rd_atom: c_int,
    pub(super) rest: [c_int; 18],
}

/// `IBV_DEVICE_MEM_WINDOW_TYPE_2A` and `_2B`.
pub(super) const DEVICE_WINDOWS_TYPE_2: c_uint = 1 << 23 | 1 << 24;

/// `ibv_access_flags`.
pub(super) mod access {
    use core::ffi::c_int;
    pub(crate) const LOCAL_WRITE: c_int = 1;
    pub(crate) const REMOTE_WRITE: c_int = 1 << 1;
    pub(crate) const REMOTE_READ: c_int = 1 << 2;
    pub(crate) const MW_BIND: c_int = 1 << 4;
}

/// `ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sge {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `ibv_send_wr`, with those members of its unions that are used.
#[repr(C)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_uint,
    pub(super) send_flags: c_uint,
    pub(super) invalidate_rkey: u32,
    pub(super) remote_address: u64,
    pub(super) rkey: u32,
    pub(super) wr_rest: [u32; 5],
    pub(super) qp_type: u64,
    pub(super) bind: Bind,
}

/// `bind_mw` of `ibv_send_wr`, with its `ibv_mw_bind_info`.
#[repr(C)]
pub(super) struct Bind {
    pub(super) mw: *mut Mw,
    pub(super) rkey: u32,
    pub(super) mr: *mut Mr,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) access: c_uint,
}

impl SendWr {
    /// Work of a kind, without memory.
    pub(super) fn new(wr_id: u64, opcode: c_uint, signaled: bool) -> Self {
        use core::ptr::null_mut;
        let bind =
            Bind { mw: null_mut(), rkey: 0, mr: null_mut(), address: 0, length: 0, access: 0 };
        Self {
            wr_id,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
            opcode,
            send_flags: if signaled { SEND_SIGNALED } else { 0 },
            invalidate_rkey: 0,
            remote_address: 0,
            rkey: 0,
            wr_rest: [0; 5],
            qp_type: 0,
            bind,
        }
    }
}

/// `ibv_wr_opcode`.
pub(super) mod opcode {
    use core::ffi::c_uint;
    pub(crate) const RDMA_WRITE: c_uint = 0;
    pub(crate) const SEND: c_uint = 2;
    pub(crate) const RDMA_READ: c_uint = 4;
    pub(crate) const LOCAL_INV: c_uint = 7;
    pub(crate) const BIND_MW: c_uint = 8;
    pub(crate) const SEND_WITH_INV: c_uint = 9;
}

/// `IBV_SEND_SIGNALED`.
const SEND_SIGNALED: c_uint = 1 << 1;

/// `ibv_recv_wr`.
#[repr(C)]
pub(super) struct RecvWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut RecvWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Wc {
    pub(super) wr_id: u64,
    pub(super) status: c_uint,
    pub(super) opcode: c_uint,
    pub(super) vendor_error: u32,
    pub(super) byte_len: u32,
    /// Immediate data in network byte order, or the key that was invalidated.
    pub(super) immediate: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) flags: c_uint,
    pub(super) rest: u64,
}

/// `IBV_WC_WITH_IMM` and `IBV_WC_WITH_INV`.
pub(super) const WC_WITH_IMM: c_uint = 1 << 1;
pub(super) const WC_WITH_INV: c_uint = 1 << 3;
/// `IB_WC_WITH_INVALIDATE`, the kernel's number for it, which soft RoCE passes on as it is. For the
/// libraries it is the checksum of IP datagrams, which no reliable connection has.
pub(super) const WC_WITH_INV_OF_KERNEL: c_uint = 1 << 2;

/// `ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub(super) context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut c_void,
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
    pub(super) qp_type: c_uint,
    pub(super) sq_sig_all: c_int,
}

/// `IBV_QPT_RC`.
pub(super) const QPT_RC: c_uint = 2;

/// `rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// `rdma_cm_id`, to the last field that is read.
#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut Context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut Qp,
    pub(super) source: libc::sockaddr_storage,
    pub(super) destination: libc::sockaddr_storage,
}

/// `RDMA_PS_TCP`.
pub(super) const PS_TCP: c_uint = 0x106;
/// `RDMA_OPTION_ID` and, of it, `RDMA_OPTION_ID_AFONLY`.
pub(super) const OPTION_ID: c_int = 0;
pub(super) const OPTION_ID_AFONLY: c_int = 2;

/// `rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConnParam {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// `rdma_cm_event`, whose larger variants are not used.
#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    pub(super) listen_id: *mut CmId,
    pub(super) event: c_uint,
    pub(super) status: c_int,
    pub(super) conn: ConnParam,
}

/// `rdma_cm_event_type`.
pub(super) mod cm_event {
    use core::ffi::c_uint;
    pub(crate) const ADDR_RESOLVED: c_uint = 0;
    pub(crate) const ADDR_ERROR: c_uint = 1;
    pub(crate) const ROUTE_RESOLVED: c_uint = 2;
    pub(crate) const ROUTE_ERROR: c_uint = 3;
    pub(crate) const CONNECT_REQUEST: c_uint = 4;
    pub(crate) const CONNECT_ERROR: c_uint = 6;
    pub(crate) const UNREACHABLE: c_uint = 7;
    pub(crate) const REJECTED: c_uint = 8;
    pub(crate) const ESTABLISHED: c_uint = 9;
    pub(crate) const DISCONNECTED: c_uint = 10;
    pub(crate) const DEVICE_REMOVAL: c_uint = 11;
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(
        size_of::<ContextOps>() == 256
            && offset_of!(Context, ops) == 8
            && offset_of!(Context, num_comp_vectors) == 272
    );
    assert!(offset_of!(ContextOps, alloc_mw) == 56 && offset_of!(ContextOps, dealloc_mw) == 72);
    assert!(offset_of!(ContextOps, poll_cq) == 88 && offset_of!(ContextOps, req_notify_cq) == 96);
    assert!(offset_of!(ContextOps, post_send) == 200 && offset_of!(ContextOps, post_recv) == 208);
    assert!(offset_of!(DeviceRecord, transport_type) == 20 && offset_of!(DeviceRecord, name) == 24);
    assert!(offset_of!(CompChannel, fd) == 8);
    assert!(size_of::<Mr>() == 48 && offset_of!(Mr, lkey) == 36 && offset_of!(Mr, rkey) == 40);
    assert!(size_of::<Mw>() == 32 && offset_of!(Mw, rkey) == 16);
    assert!(size_of::<DeviceAttr>() == 232 && offset_of!(DeviceAttr, max_qp_wr) == 112);
    assert!(
        offset_of!(DeviceAttr, device_cap_flags) == 116 && offset_of!(DeviceAttr, max_sge) == 120
    );
    assert!(
        offset_of!(DeviceAttr, max_cqe) == 132 && offset_of!(DeviceAttr, max_qp_rd_atom) == 144
    );
    assert!(offset_of!(DeviceAttr, max_qp_init_rd_atom) == 156);
    assert!(size_of::<Sge>() == 16 && size_of::<RecvWr>() == 32);
    assert!(
        size_of::<SendWr>() == 128
            && offset_of!(SendWr, invalidate_rkey) == 36
            && offset_of!(SendWr, remote_address) == 40
    );
    assert!(offset_of!(SendWr, rkey) == 48 && offset_of!(SendWr, bind) == 80);
    assert!(
        offset_of!(Bind, rkey) == 8 && offset_of!(Bind, mr) == 16 && offset_of!(Bind, access) == 40
    );
    assert!(
        size_of::<Wc>() == 48
            && offset_of!(Wc, byte_len) == 20
            && offset_of!(Wc, immediate) == 24
            && offset_of!(Wc, flags) == 36
    );
    assert!(
        size_of::<QpInitAttr>() == 64
            && offset_of!(QpInitAttr, max_send_wr) == 32
            && offset_of!(QpInitAttr, qp_type) == 52
    );
    assert!(
        offset_of!(CmId, qp) == 24
            && offset_of!(CmId, source) == 32
            && offset_of!(CmId, destination) == 160
    );
    assert!(
        size_of::<ConnParam>() == 24
            && offset_of!(ConnParam, rnr_retry_count) == 13
            && offset_of!(ConnParam, qp_num) == 16
    );
    assert!(
        offset_of!(CmEvent, event) == 16
            && offset_of!(CmEvent, status) == 20
            && offset_of!(CmEvent, conn) == 24
    );
};
