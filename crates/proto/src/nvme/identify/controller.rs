//! Identify Controller (Base §5.17.2.1) and its part for the NVM command set (NVM §4.1.5.2).

use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::types::{Cntlid, Id128};
use crate::nvme::wire::{Ascii, NqnField, codes, structure};

codes! {
    /// Controller type (CNTRLTYPE). Controllers before version 1.4 report 0.
    pub struct ControllerType(u8) {
        0 NOT_REPORTED "not reported";
        1 IO "I/O controller";
        2 DISCOVERY "discovery controller";
        3 ADMINISTRATIVE "administrative controller";
    }
}

structure! {
    /// Power State Descriptor (Base, "Identify – Power State Descriptor Data Structure").
    pub struct PowerState[32] {
        /// MP, Maximum Power, in units of 10 mW, or of 0.1 mW where bit 0 of `flags` is set.
        0 mp: u16,
        /// Bit 0 MXPS (scale of MP), bit 1 NOPS (non-operational state).
        3 flags: u8,
        /// ENLAT, Entry Latency, µs.
        4 enlat: u32,
        /// EXLAT, Exit Latency, µs.
        8 exlat: u32,
        /// RRT, Relative Read Throughput.
        12 rrt: u8,
        /// RRL, Relative Read Latency.
        13 rrl: u8,
        /// RWT, Relative Write Throughput.
        14 rwt: u8,
        /// RWL, Relative Write Latency.
        15 rwl: u8,
        /// IDLP, Idle Power.
        16 idlp: u16,
        /// IPS, Idle Power Scale, bits 7:6.
        18 ips: u8,
        /// ACTP, Active Power.
        20 actp: u16,
        /// APW and APS, Active Power Workload and Scale.
        22 apws: u8,
    }
}

structure! {
    /// Identify Controller data structure, CNS 01h (Base §5.17.2.1).
    pub struct IdentifyController[4096] {
        /// PCI Vendor ID.
        0 vid: u16,
        /// PCI Subsystem Vendor ID.
        2 ssvid: u16,
        /// Serial Number.
        4 sn: Ascii<20>,
        /// Model Number.
        24 mn: Ascii<40>,
        /// Firmware Revision.
        64 fr: Ascii<8>,
        /// Recommended Arbitration Burst, as a power of two.
        72 rab: u8,
        /// IEEE OUI Identifier, least significant byte first.
        73 ieee: [u8; 3],
        /// Controller Multi-Path I/O and Namespace Sharing Capabilities ([`Self::CMIC_CONTROLLERS`]
        /// and others).
        76 cmic: u8,
        /// Maximum Data Transfer Size: 2 to this power in units of CAP.MPSMIN; 0 means no limit.
        77 mdts: u8,
        /// Controller ID.
        78 cntlid: Cntlid,
        /// Version, as the property VS: major in bits 31:16, minor in 15:8, tertiary in 7:0.
        80 ver: u32,
        /// RTD3 Resume Latency, µs; 0 means not reported.
        84 rtd3r: u32,
        /// RTD3 Entry Latency, µs: how long a shutdown may take; 0 means not reported.
        88 rtd3e: u32,
        /// Optional Asynchronous Events Supported ([`crate::nvme::feature::AsyncEventBits`]).
        92 oaes: u32,
        /// Controller Attributes (`CTRATT_…`).
        96 ctratt: u32,
        /// Read Recovery Levels Supported.
        100 rrls: u16,
        /// Controller Type.
        111 cntrltype: ControllerType,
        /// FRU Globally Unique Identifier.
        112 fguid: Id128,
        /// Command Retry Delay Time 1, in units of 100 ms.
        128 crdt1: u16,
        /// Command Retry Delay Time 2, in units of 100 ms.
        130 crdt2: u16,
        /// Command Retry Delay Time 3, in units of 100 ms.
        132 crdt3: u16,
        /// Controller Instance Uniquifier (CIU): changes with each instance of a controller with
        /// this identifier; 0 means not reported (Base 2.3 §5.2.13.2.1).
        135 ciu: u8,
        /// Controller Instance Random Number (CIRN): a random number of this instance; 0 means not
        /// reported.
        136 cirn: u64,
        /// NVM Subsystem Report (NVMe-MI).
        253 nvmsr: u8,
        /// VPD Write Cycle Information (NVMe-MI).
        254 vwci: u8,
        /// Management Endpoint Capabilities (NVMe-MI).
        255 mec: u8,
        /// Optional Admin Command Support.
        256 oacs: u16,
        /// Abort Command Limit, counted from zero.
        258 acl: u8,
        /// Asynchronous Event Request Limit, counted from zero.
        259 aerl: u8,
        /// Firmware Updates.
        260 frmw: u8,
        /// Log Page Attributes (`LPA_…`).
        261 lpa: u8,
        /// Error Log Page Entries, counted from zero.
        262 elpe: u8,
        /// Number of Power States Support, counted from zero.
        263 npss: u8,
        /// Admin Vendor Specific Command Configuration.
        264 avscc: u8,
        /// Autonomous Power State Transition Attributes.
        265 apsta: u8,
        /// Warning Composite Temperature Threshold, kelvin.
        266 wctemp: u16,
        /// Critical Composite Temperature Threshold, kelvin.
        268 cctemp: u16,
        /// Maximum Time for Firmware Activation, in units of 100 ms.
        270 mtfa: u16,
        /// Host Memory Buffer Preferred Size, in units of 4 KiB.
        272 hmpre: u32,
        /// Host Memory Buffer Minimum Size, in units of 4 KiB.
        276 hmmin: u32,
        /// Total NVM Capacity, bytes.
        280 tnvmcap: u128,
        /// Unallocated NVM Capacity, bytes.
        296 unvmcap: u128,
        /// Replay Protected Memory Block Support.
        312 rpmbs: u32,
        /// Extended Device Self-test Time, minutes.
        316 edstt: u16,
        /// Device Self-test Options.
        318 dsto: u8,
        /// Firmware Update Granularity, in units of 4 KiB.
        319 fwug: u8,
        /// Keep Alive Support: granularity of the timer in units of 100 ms; 0 means no Keep Alive.
        320 kas: u16,
        /// Host Controlled Thermal Management Attributes.
        322 hctma: u16,
        /// Minimum Thermal Management Temperature, kelvin.
        324 mntmt: u16,
        /// Maximum Thermal Management Temperature, kelvin.
        326 mxtmt: u16,
        /// Sanitize Capabilities.
        328 sanicap: u32,
        /// Host Memory Buffer Minimum Descriptor Entry Size, in units of 4 KiB.
        332 hmminds: u32,
        /// Host Memory Maximum Descriptors Entries.
        336 hmmaxd: u16,
        /// NVM Set Identifier Maximum.
        338 nsetidmax: u16,
        /// Endurance Group Identifier Maximum.
        340 endgidmax: u16,
        /// ANA Transition Time, seconds.
        342 anatt: u8,
        /// Asymmetric Namespace Access Capabilities.
        343 anacap: u8,
        /// ANA Group Identifier Maximum.
        344 anagrpmax: u32,
        /// Number of ANA Group Identifiers.
        348 nanagrpid: u32,
        /// Persistent Event Log Size, in units of 64 KiB.
        352 pels: u32,
        /// Domain Identifier.
        356 domainid: u16,
        /// Max Endurance Group Capacity, bytes.
        368 megcap: u128,
        /// Controller Quiesce Time, milliseconds: how long it may go on with commands after its
        /// keep alive timer has run out; 0 means not told.
        386 cqt: u16,
        /// Submission Queue Entry Size: required in bits 3:0, maximum in bits 7:4, as powers of
        /// two.
        512 sqes: u8,
        /// Completion Queue Entry Size, in the same form.
        513 cqes: u8,
        /// Maximum Outstanding Commands.
        514 maxcmd: u16,
        /// Number of Namespaces: the highest namespace identifier that can be valid.
        516 nn: u32,
        /// Optional NVM Command Support (`ONCS_…`).
        520 oncs: u16,
        /// Fused Operation Support ([`Self::FUSES_COMPARE_AND_WRITE`]).
        522 fuses: u16,
        /// Format NVM Attributes.
        524 fna: u8,
        /// Volatile Write Cache ([`Self::VWC_PRESENT`] and others).
        525 vwc: u8,
        /// Atomic Write Unit Normal, logical blocks, counted from zero.
        526 awun: u16,
        /// Atomic Write Unit Power Fail, logical blocks, counted from zero.
        528 awupf: u16,
        /// I/O Command Set Vendor Specific Command Configuration.
        530 icsvscc: u8,
        /// Namespace Write Protection Capabilities.
        531 nwpc: u8,
        /// Atomic Compare & Write Unit, logical blocks, counted from zero.
        532 acwu: u16,
        /// Copy Descriptor Formats Supported (OCFS, CDFS).
        534 cdfs: u16,
        /// SGL Support (`SGLS_…`).
        536 sgls: u32,
        /// Maximum Number of Allowed Namespaces; 0 means that `nn` tells it.
        540 mnan: u32,
        /// Maximum Domain Namespace Attachments.
        544 maxdna: u128,
        /// Maximum I/O Controller Namespace Attachments.
        560 maxcna: u32,
        /// NVM Subsystem NVMe Qualified Name.
        768 subnqn: NqnField,
        /// I/O Queue Command Capsule Supported Size, in units of 16 bytes; at least 4.
        1792 ioccsz: u32,
        /// I/O Queue Response Capsule Supported Size, in units of 16 bytes; at least 1.
        1796 iorcsz: u32,
        /// In Capsule Data Offset, in units of 16 bytes behind the submission queue entry.
        1800 icdoff: u16,
        /// Fabrics Controller Attributes ([`Self::FCATT_STATIC`]).
        1802 fcatt: u8,
        /// Maximum SGL Data Block Descriptors that a capsule may hold; 0 means no limit.
        1803 msdbd: u8,
        /// Optional Fabrics Commands Support: bit 0, the Disconnect command.
        1804 ofcs: u16,
        /// Discovery Controller Type.
        1806 dctype: u8,
        /// Cross-Controller Reset Limit (CCRL): Cross-Controller Reset operations that a controller
        /// accepts at a time; 0 means that it does not support the command.
        1807 ccrl: u8,
        /// Power State Descriptors; the first `npss` + 1 are valid.
        2048 psd: [PowerState; 32],
        /// Vendor specific: [`Self::START_MARK`] where `start` is valid, as a controller of weft
        /// reports it.
        3072 start_mark: [u8; 8],
        /// Vendor specific, of weft: see [`Self::start_number`].
        3080 start: u64,
    }
}

impl IdentifyController {
    /// CMIC: the subsystem may have more than one port.
    pub const CMIC_PORTS: u8 = 1;
    /// CMIC: the subsystem may have two or more controllers.
    pub const CMIC_CONTROLLERS: u8 = 1 << 1;
    /// CMIC: the subsystem reports asymmetric namespace access.
    pub const CMIC_ANA: u8 = 1 << 3;

    /// ANACAP: the states that the controller can report, each a bit: optimized, non-optimized,
    /// inaccessible, persistent loss, change.
    pub const ANACAP_STATES: u8 = 0x1f;

    /// Contents of `start_mark` if a controller of weft reports its start.
    pub const START_MARK: [u8; 8] = *b"weft.1st";

    /// CTRATT: 128-bit host identifiers.
    pub const CTRATT_HOST_ID_128: u32 = 1;
    /// CTRATT: traffic based keep alive: any command restarts the keep alive timer.
    pub const CTRATT_TRAFFIC_KEEP_ALIVE: u32 = 1 << 6;

    /// LPA: the log page Commands Supported and Effects is there.
    pub const LPA_EFFECTS: u8 = 1 << 1;
    /// LPA: Get Log Page takes 32-bit lengths and 64-bit offsets.
    pub const LPA_EXTENDED: u8 = 1 << 2;
    /// LPA: the log pages Supported Log Pages, Feature Identifiers Supported and Effects, and
    /// NVMe-MI Commands are there.
    pub const LPA_SUPPORTED_PAGES: u8 = 1 << 5;

    /// ONCS: Compare.
    pub const ONCS_COMPARE: u16 = 1;
    /// ONCS: Dataset Management.
    pub const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
    /// ONCS: Write Zeroes.
    pub const ONCS_WRITE_ZEROES: u16 = 1 << 3;
    /// ONCS: reservations.
    pub const ONCS_RESERVATIONS: u16 = 1 << 5;

    /// ONCS: Copy.
    pub const ONCS_COPY: u16 = 1 << 8;

    /// FUSES: fused Compare and Write.
    pub const FUSES_COMPARE_AND_WRITE: u16 = 1;

    /// VWC: there is a volatile write cache: data is durable only after Flush or with Force Unit
    /// Access.
    pub const VWC_PRESENT: u8 = 1;
    /// VWC bits 2:1: Flush with namespace identifier FFFFFFFFh flushes all namespaces.
    pub const VWC_FLUSH_ALL: u8 = 3 << 1;

    /// SGLS bits 1:0: SGLs are supported, without alignment (1) or with dword alignment (2).
    pub const SGLS_SUPPORTED: u32 = 3;
    /// SGLS bits 1:0: SGLs are supported without any requirement on alignment.
    pub const SGLS_ANY_ALIGNMENT: u32 = 1;
    /// SGLS: keyed SGL data block descriptors (RDMA).
    pub const SGLS_KEYED: u32 = 1 << 2;
    /// SGLS: the address of a data block may be an offset (in-capsule data).
    pub const SGLS_OFFSET: u32 = 1 << 20;
    /// SGLS: transport SGL data blocks.
    pub const SGLS_TRANSPORT: u32 = 1 << 21;

    /// FCATT: static controller model; dynamic where it is not set.
    pub const FCATT_STATIC: u8 = 1;

    /// The number of the target's start, where the controller is weft's: it is another one whenever
    /// completed writes that were not flushed may have been lost, as in a restart of the process.
    /// It says nothing but whether it is the same as before.
    pub fn start_number(&self) -> Option<u64> {
        (self.start_mark == Self::START_MARK).then_some(self.start)
    }

    /// Reports the number of the target's start ([`Self::start_number`]).
    pub fn set_start_number(&mut self, start: u64) {
        self.start_mark = Self::START_MARK;
        self.start = start;
    }

    /// Returns the name of this instance for Cross-Controller Reset, if the controller reports it.
    pub fn instance(&self) -> Option<CrossControllerReset> {
        let told = self.ciu != 0 && self.cirn != 0;
        told.then_some(CrossControllerReset { icid: self.cntlid, ciu: self.ciu, cirn: self.cirn })
    }
}

structure! {
    /// Identify Controller data structure of the NVM command set, CNS 06h, CSI 00h (NVM §4.1.5.2).
    /// Zero means no limit; sizes are powers of two in units of CAP.MPSMIN.
    pub struct IdentifyNvmController[4096] {
        /// Verify Size Limit.
        0 vsl: u8,
        /// Write Zeroes Size Limit.
        1 wzsl: u8,
        /// Write Uncorrectable Size Limit.
        2 wusl: u8,
        /// Dataset Management Ranges Limit: ranges in a command.
        3 dmrl: u8,
        /// Dataset Management Range Size Limit: logical blocks in a range.
        4 dmrsl: u32,
        /// Dataset Management Size Limit: logical blocks in a command.
        8 dmsl: u64,
    }
}
