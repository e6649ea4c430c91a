// SPDX-License-Identifier: MIT
#include "observe.h"
