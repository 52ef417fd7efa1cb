// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers shared by the tests that cross parts.
