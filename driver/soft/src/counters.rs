// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a device: what it did, and everything that can go wrong.
use std::sync::atomic::{AtomicU64, Ordering};

/// One.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn sub(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($name:ident $shown:literal)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }
        impl Counters {
            pub(crate) fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$(($shown, self.$name.get())),*]
            }
        }
    };
}

counters! {
    out_sends "iwOutRdmaSends"
    out_writes "iwOutRdmaWrites"
    out_reads "iwOutRdmaReads"
    in_sends "iwInRdmaSends"
    in_writes "iwInRdmaWrites"
    in_reads "iwInRdmaReads"
    in_fpdus "inFpdus"
    out_fpdus "outFpdus"
    invalidates "iwRdmaInv"
    terminates_in "terminatesIn"
    terminates_out "terminatesOut"
    crc_errors "crcErrors"
    marker_errors "markerErrors"
    length_errors "lengthErrors"
    write_without_right "writeWithoutRight"
    local_protection "localProtectionErrors"
    resets_in "resetsIn"
    aborts "aborts"
    unclean_fins "uncleanFins"
    close_timeouts "closeTimeouts"
    cq_overflows "cqOverflows"
    events_refused "eventsRefused"
    requests_in "mpaInRequests"
    replies_in "mpaInReplies"
    malformed "mpaMalformed"
    early_octets "mpaEarlyOctets"
    request_timeouts "mpaTimeouts"
    retries "mpaRetries"
    rejects_in "mpaRejectsIn"
    rejects_out "mpaRejectsOut"
    backlog_rejects "mpaNonPeerRejects"
    accepts "accepts"
    connects "connects"
    connect_errors "connectErrors"
    accept_errors "acceptErrors"
    listens_live "listensLive"
    half_open_live "halfOpenLive"
    pending_live "pendingLive"
    connections_live "connectionsLive"
    qps_live "qpsLive"
    cqs_live "cqsLive"
    pds_live "pdsLive"
    mrs_live "mrsLive"
}
