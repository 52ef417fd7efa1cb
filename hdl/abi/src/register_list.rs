// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of BAR0. Each is `CONST_NAME field_name offset reset "meaning";`, all registers are 32 bits wide.
//! What stands after the callback's name is handed on before the rows, so that callbacks can be chained over several lists.

/// Calls `$callback!{ rows }` with every read-write configuration register. They keep their value until the next write or a reset.
#[macro_export]
macro_rules! for_each_config_register { ($callback:ident $($before:tt)*) => { $callback! { $($before)*
    TIMEBASE       timebase       0x0020 0x0000_0400 "Microseconds per clock, 16.16 fixed point; reset value 1/64 us (62.5 MHz is 0x418)";
    MAC_LO         mac_lo         0x0024 0x0000_0000 "Own MAC address, first four octets on the wire: octet 0 in bits 7:0";
    MAC_HI         mac_hi         0x0028 0x0000_0000 "Own MAC address, last two octets: octet 4 in bits 7:0, octet 5 in 15:8";
    MTU            mtu            0x002c 1500        "Largest IP datagram in octets, 576..=9000 (bounded by the profile)";
    CMD_BASE_LO    cmd_base_lo    0x0030 0x0000_0000 "Command ring address, bits 31:0; 64-octet aligned";
    CMD_BASE_HI    cmd_base_hi    0x0034 0x0000_0000 "Command ring address, bits 63:32";
    CMD_LOG2       cmd_log2       0x0038 0x0000_0002 "log2 of the number of command ring entries, 2..=12";
    EVT_BASE_LO    evt_base_lo    0x0040 0x0000_0000 "Event ring address, bits 31:0; 64-octet aligned";
    EVT_BASE_HI    evt_base_hi    0x0044 0x0000_0000 "Event ring address, bits 63:32";
    EVT_LOG2       evt_log2       0x0048 0x0000_0002 "log2 of the number of event ring entries, 2..=12";
    L2RX_BASE_LO   l2rx_base_lo   0x0050 0x0000_0000 "L2 receive descriptor ring address, bits 31:0; 16-octet aligned";
    L2RX_BASE_HI   l2rx_base_hi   0x0054 0x0000_0000 "L2 receive descriptor ring address, bits 63:32";
    L2RX_LOG2      l2rx_log2      0x0058 0x0000_0002 "log2 of the number of L2 receive descriptors, 2..=12";
    L2TX_BASE_LO   l2tx_base_lo   0x0060 0x0000_0000 "L2 transmit descriptor ring address, bits 31:0; 16-octet aligned";
    L2TX_BASE_HI   l2tx_base_hi   0x0064 0x0000_0000 "L2 transmit descriptor ring address, bits 63:32";
    L2TX_LOG2      l2tx_log2      0x0068 0x0000_0002 "log2 of the number of L2 transmit descriptors, 2..=12";
    IRQ_MASK       irq_mask       0x0070 0x0000_0000 "Bit n = 1: cause n raises its vector. A cause that became pending while masked raises it at unmasking";
    L2_CONTROL     l2_control     0x0078 0x0000_0000 "Bit 0: give frames that the adapter does not use to the host (sharing). Bit 1: multicast too. Bit 2: promiscuous";
    PORT_RANGE     port_range     0x0080 0xffff_c000 "Range that port 0 chooses from: first port 15:0, last port 31:16 (RFC 6056: 49152..=65535)";
    RANDOM         random         0x0084 0x1bad_5eed "Seed of the adapter's random choices (first port tried); the driver loads a good one before ENABLE";
    ARP_TIMEOUT    arp_timeout    0x0088 60_000_000  "Life of a neighbour entry in microseconds (ARP-4)";
    ARP_RETRY      arp_retry      0x008c 1_000_000   "Time between two requests for one address in microseconds, not below 1 s on a real net (ARP-5)";
    ARP_TRIES      arp_tries      0x0090 3           "Requests sent before an address is unreachable, 1..=255 (ARP-7)";
    ICMP_RATE      icmp_rate      0x0094 0           "Shortest time between two echo replies in microseconds, 0 = no limit (ICMP-12)";
    IP_TTL         ip_ttl         0x0098 64          "TTL of datagrams that the adapter makes, 1..=255 (IP-9)";
    SCRATCH        scratch        0x009c 0x0000_0000 "Any value; for the driver's own tests of the register path";
    TCP_WINDOW     tcp_window     0x00a0 14_600      "Receive window that connections offer, in octets, 1..=65535: the reset value is 10 segments, which the 16 KiB of the receive buffer hold";
    TCP_RTO_INIT   tcp_rto_init   0x00a4 1_000_000   "First retransmission time-out in microseconds (RFC 6298 section 2)";
    TCP_RTO_MIN    tcp_rto_min    0x00a8 200_000     "Lower bound of the retransmission time-out in microseconds (CH-22)";
    TCP_RTO_MAX    tcp_rto_max    0x00ac 60_000_000  "Upper bound of the retransmission time-out in microseconds, below 2^30";
    TCP_R1         tcp_r1         0x00b0 3           "Retransmissions of one segment after which the next hop is polled again (TCP-15, ARP-11), 1..=255";
    TCP_R2         tcp_r2         0x00b4 100_000_000 "Time from a segment's first transmission to giving up, in microseconds, below 2^31 (TCP-15)";
    TCP_R2_SYN     tcp_r2_syn     0x00b8 180_000_000 "The same for SYN (TCP-15)";
    TCP_2MSL       tcp_2msl       0x00bc 240_000_000 "Length of TIME-WAIT in microseconds, below 2^31 (TCP-9)";
    TCP_CHALLENGES tcp_challenges 0x00c0 10          "Challenge ACKs in 5 seconds, of all connections (TCP-8), 0..=255";
    MPA_TIMEOUT    mpa_timeout    0x00c4 10_000_000  "A peer that opened a connection has this long for its whole MPA Request, in microseconds (MPA-8)";
    CONNECT_TIMEOUT connect_timeout 0x00c8 60_000_000 "From CONNECT to CONNECT_REPLY, in microseconds, if the command names no time (CM-34)";
    CLOSE_TIMEOUT  close_timeout  0x00cc 60_000_000  "A connection that closes in order is reset after this many microseconds";
    ISN_KEY0       isn_key0       0x00d0 0x0000_0000 "Secret of the initial sequence numbers, bits 31:0; the driver loads 128 random bits before ENABLE (TCP-3)";
    ISN_KEY1       isn_key1       0x00d4 0x0000_0000 "Secret of the initial sequence numbers, bits 63:32";
    ISN_KEY2       isn_key2       0x00d8 0x0000_0000 "Secret of the initial sequence numbers, bits 95:64";
    ISN_KEY3       isn_key3       0x00dc 0x0000_0000 "Secret of the initial sequence numbers, bits 127:96";
    PDATA_BASE_LO  pdata_base_lo  0x00e0 0x0000_0000 "Private data area, bits 31:0; 512-octet aligned: 512 octets for each connection, by index";
    PDATA_BASE_HI  pdata_base_hi  0x00e4 0x0000_0000 "Private data area, bits 63:32";
    SPARE_SLOTS    spare_slots    0x00e8 4           "Connection slots that only CONNECT may take: a SYN to a listener is dropped when no more are free";
    REFUSAL_TIMEOUT refusal_timeout 0x00ec 200_000   "Behind a Reply that refuses, FIN waits for the peer's, so many microseconds at most, below 2^31; 0 = it does not wait";
} } }

/// Calls `$callback!{ rows }` with every write-only register: each write gives the core a strobe with the value.
#[macro_export]
macro_rules! for_each_strobe_register { ($callback:ident $($before:tt)*) => { $callback! { $($before)*
    CONTROL        control        0x0010 0 "Bit 0: ENABLE, start fetching commands and accepting frames. Bit 1: RESET, start the two-phase reset (all else in the write ignored)";
    IRQ_ACK        irq_ack        0x0074 0 "Bit n = 1 clears pending cause n";
    CMD_TAIL       cmd_tail       0x1000 0 "Doorbell: producer index of the command ring, free-running, modulo 2^16";
    EVT_HEAD       evt_head       0x1004 0 "Consumer index of the event ring, free-running, modulo 2^16: entries before it may be overwritten";
    L2RX_TAIL      l2rx_tail      0x1008 0 "Doorbell: producer index of the L2 receive ring (empty buffers), free-running, modulo 2^16";
    L2TX_TAIL      l2tx_tail      0x100c 0 "Doorbell: producer index of the L2 transmit ring, free-running, modulo 2^16";
    SQ_TAIL        sq_tail        0x1030 0 "Doorbell: QPN 31:16, producer index of its send queue 15:0, free-running";
    RQ_TAIL        rq_tail        0x1034 0 "Doorbell: QPN 31:16, producer index of its receive queue 15:0, free-running";
    CQ_HEAD        cq_head        0x1038 0 "Doorbell: arm 31:30 (work::arm), CQN 29:16, consumer index of the completion queue 15:0, free-running";
} } }

/// Calls `$callback!{ rows }` with every read-only register.
#[macro_export]
macro_rules! for_each_status_register { ($callback:ident $($before:tt)*) => { $callback! { $($before)*
    MAGIC          magic          0x0000 0 "0x50525749, ASCII IWRP";
    VERSION        version        0x0004 0 "ABI version, major 31:16, minor 15:0";
    CAPS           caps           0x0008 0 "Listeners 15:0, connections 31:16";
    CAPS2          caps2          0x000c 0 "Local addresses 7:0, neighbour entries 23:8, log2 of largest MTU buffer 31:24";
    STATUS         status         0x0014 0 "Bit 0 READY (reset finished), 1 ENABLED, 2 RESETTING, 3 DMA_READ_ERROR, 4 DMA_WRITE_ERROR, 5 CMD_STOPPED (the command ring stopped after a DMA error; reset)";
    TIME_LO        time_lo        0x0018 0 "Adapter time in microseconds, bits 31:0";
    CYCLES_LO      cycles_lo      0x001c 0 "Core clocks since power-up, bits 31:0";
    IRQ_PENDING    irq_pending    0x006c 0 "Bit n = 1: cause n is pending";
    CMD_HEAD       cmd_head       0x1010 0 "Commands consumed, free-running, modulo 2^16";
    EVT_TAIL       evt_tail       0x1014 0 "Events written, free-running, modulo 2^16";
    L2RX_HEAD      l2rx_head      0x1018 0 "L2 receive descriptors completed, free-running, modulo 2^16";
    L2TX_HEAD      l2tx_head      0x101c 0 "L2 transmit descriptors completed, free-running, modulo 2^16";
    LISTENERS_LIVE listeners_live 0x1020 0 "Listener handles not yet freed";
    CONNECTIONS_LIVE connections_live 0x1024 0 "Connection slots in use, TIME-WAIT not counted";
    CAPS3          caps3          0x1028 0 "log2 of the queue pairs 3:0, of the completion queues 7:4 (0 = none), of the memory regions 15:8";
} } }
