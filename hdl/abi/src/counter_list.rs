// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the counter table: `Variant field_name "nameShownByTools" "meaning";`. The position is the counter's number.

/// Number of counters (rows of [`for_each_counter!`]).
pub const COUNTERS: usize = 64;

/// Calls `$callback!{ rows }` with every counter, in the order of their numbers.
#[macro_export]
macro_rules! for_each_counter { ($callback:ident) => { $callback! {
    EthInFrames        eth_in_frames         "ethInFrames"        "Frames that the MAC delivered whole and without error";
    EthOutFrames       eth_out_frames        "ethOutFrames"       "Frames given to the MAC";
    EthInFcsErrors     eth_in_fcs_errors     "ethInFcsErrors"     "Frames that the MAC marked as damaged (ETH-4)";
    EthInRunts         eth_in_runts          "ethInRunts"         "Frames under 60 octets without FCS (ETH-4)";
    EthInOversize      eth_in_oversize       "ethInOversize"      "Frames over MTU + 14 (+ 4 with a VLAN tag) octets (ETH-4)";
    EthInOverflow      eth_in_overflow       "ethInOverflow"      "Good frames dropped for lack of room: the wire has no ready";
    EthInOtherMac      eth_in_other_mac      "ethInOtherMac"      "Unicast frames to another MAC address, not processed (ETH-7)";
    EthInMulticast     eth_in_multicast      "ethInMulticast"     "Multicast frames dropped because the host did not ask for them";
    EthInOtherType     eth_in_other_type     "ethInOtherType"     "Frames that are neither IPv4 nor ARP (ETH-1)";
    RxVlanErrors       rx_vlan_errors        "rxVlanErrors"       "Tagged frames, never processed as untagged (ETH-8)";
    ArpInRequests      arp_in_requests       "arpInRequests"      "Well-formed ARP requests";
    ArpInReplies       arp_in_replies        "arpInReplies"       "Well-formed ARP replies";
    ArpInIgnored       arp_in_ignored        "arpInIgnored"       "ARP packets with a wrong field or an address never to be learnt (ARP-1, ARP-8)";
    ArpConflicts       arp_conflicts         "arpConflicts"       "ARP packets whose sender claims one of our addresses (ARP-8)";
    ArpOutRequests     arp_out_requests      "arpOutRequests"     "ARP requests sent";
    ArpOutReplies      arp_out_replies       "arpOutReplies"      "ARP replies sent";
    ArpTimeouts        arp_timeouts          "arpTimeouts"        "Addresses that answered none of ARP_TRIES requests (ARP-7)";
    ArpExpired         arp_expired           "arpExpired"         "Neighbour entries that reached ARP_TIMEOUT (ARP-4)";
    ArpEvictions       arp_evictions         "arpEvictions"       "Live neighbour entries that made room for another";
    Ip4InPkts          ip4_in_pkts           "ip4InPkts"          "IPv4 datagrams to us that passed every check";
    Ip4InHdrErrors     ip4_in_hdr_errors     "ip4InHdrErrors"     "Version, IHL or Total Length wrong (IP-1, IP-3)";
    Ip4InCsumErrors    ip4_in_csum_errors    "ip4InCsumErrors"    "Header checksum wrong (IP-2)";
    Ip4InAddrErrors    ip4_in_addr_errors    "ip4InAddrErrors"    "Destination is not ours (IP-4)";
    Ip4InSrcErrors     ip4_in_src_errors     "ip4InSrcErrors"     "Source address that no host may have (IP-5)";
    Ip4InOptions       ip4_in_options        "ip4InOptions"       "Datagrams with IP options, left to the host (IP-6, IP-14)";
    Ip4InFragments     ip4_in_fragments      "ip4InFragments"     "Fragments, left to the host (IP-7)";
    Ip4InOtherProto    ip4_in_other_proto    "ip4InOtherProto"    "Neither TCP nor ICMP (IP-11)";
    IcmpInEchos        icmp_in_echos         "icmpInEchos"        "Echo requests to us, checksum good";
    IcmpOutEchoReps    icmp_out_echo_reps    "icmpOutEchoReps"    "Echo replies sent";
    IcmpInCsumErrors   icmp_in_csum_errors   "icmpInCsumErrors"   "ICMP checksum wrong";
    IcmpInBroadcast    icmp_in_broadcast     "icmpInBroadcast"    "Echo requests to a broadcast or multicast address, not answered (ICMP-2)";
    IcmpInRateLimited  icmp_in_rate_limited  "icmpInRateLimited"  "Echo requests dropped by ICMP_RATE or because the reply path was busy (ICMP-12)";
    IcmpInUnknown      icmp_in_unknown       "icmpInUnknown"      "Types that are dropped, Source Quench among them (ICMP-3, ICMP-6)";
    IcmpInToHost       icmp_in_to_host       "icmpInToHost"       "Types left to the host: echo reply, unreachable, redirect, time exceeded ... (ICMP-11)";
    TcpInSegs          tcp_in_segs           "tcpInSegs"          "TCP segments to us, checksum good";
    TcpInCsumErrors    tcp_in_csum_errors    "tcpInCsumErrors"    "TCP checksum wrong or header cut short (TCP-1)";
    TcpInNoPort        tcp_in_no_port        "tcpInNoPort"        "Segments for a port that nobody in the adapter holds (PDB-4)";
    TcpInUnhandled     tcp_in_unhandled      "tcpInUnhandled"     "Segments for a port of the adapter that no connection took";
    L2InFrames         l2_in_frames          "l2InFrames"         "Frames written to the host";
    L2InNoBuffer       l2_in_no_buffer       "l2InNoBuffer"       "Frames for the host dropped: no descriptor, buffer too small or queue full";
    L2InNotShared      l2_in_not_shared      "l2InNotShared"      "Frames for the host dropped: sharing is off";
    L2OutFrames        l2_out_frames         "l2OutFrames"        "Frames taken from the host and sent";
    L2OutErrors        l2_out_errors         "l2OutErrors"        "Transmit descriptors refused: bad length, DMA error, no route, no room to wait for the next hop";
    L2OutNoNeighbor    l2_out_no_neighbor    "l2OutNoNeighbor"    "Frames from the host whose next hop did not answer";
    L2OutReplaced      l2_out_replaced       "l2OutReplaced"      "Frames waiting for a next hop that made room for a later one (ARP-6 keeps the latest)";
    CmdDone            cmd_done              "cmdDone"            "Commands answered with status 0";
    CmdErrors          cmd_errors            "cmdErrors"          "Commands answered with another status";
    CmdUnknown         cmd_unknown           "cmdUnknown"         "Commands with an unknown opcode";
    StaleHandles       stale_handles         "staleHandles"       "Commands with a handle that is stale, of another kind or out of range (CM-32)";
    DmaReadErrors      dma_read_errors       "dmaReadErrors"      "DMA reads that failed";
    DmaWriteErrors     dma_write_errors      "dmaWriteErrors"     "DMA writes that failed";
    EvtWritten         evt_written           "evtWritten"         "Events written to the ring";
    EvtRingFull        evt_ring_full         "evtRingFull"        "Events that had to wait for room in the ring (CM-44)";
    DoorbellErrors     doorbell_errors       "doorbellErrors"     "Doorbells with an index further than the ring is long; ignored";
    ListenCreated      listen_created        "listen_created"     "Listeners made";
    ListenDestroyed    listen_destroyed      "listen_destroyed"   "Listeners freed";
    PortInUse          port_in_use           "portInUse"          "Ports refused: in use";
    PortReserved       port_reserved         "portReserved"       "Ports refused: reserved by the host";
    PortsExhausted     ports_exhausted       "portsExhausted"     "Choices that found no free port";
    ListenersExhausted listeners_exhausted   "listenersExhausted" "LISTEN refused: no free listener slot";
    RxMetaDropped      rx_meta_dropped       "rxMetaDropped"      "Good frames dropped because an engine's queue was full";
    EthOutUnderrun     eth_out_underrun      "ethOutUnderrun"     "Frames that could not be fed to the MAC in time";
    Ip4OutPkts         ip4_out_pkts          "ip4OutPkts"         "IPv4 datagrams that the adapter made itself";
    ResetTimeouts      reset_timeouts        "resetTimeouts"      "Resets in which a phase went on at its bound: DMA or a clearing block was late";
} } }
