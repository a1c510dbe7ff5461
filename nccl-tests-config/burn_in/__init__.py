"""What nccl-gdr-burn-in consists of."""

import comparelib  # pylint: disable=unused-import  # it says where Python is too old
