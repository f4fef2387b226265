"""What values are in the operations that we write out, and in the derivatives that we have rules for.

Each role is given once and for all: it is the value's word where the user has none for it, and what later rooms ask
for where they treat such a value in a way of its own. A user's own name is a plain text, and never a role.
"""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.StrEnum):
    """A role; its text is the word for it."""

    # Softmax, and losses of classes.
    ROW_MAX = "row_max"
    NUMERATOR = "numerator"
    DENOMINATOR = "denominator"
    LOG_DENOMINATOR = "log_denominator"
    SHIFTED = "shifted"
    SHIFT = "shift"
    LOG_PROB = "log_prob"
    PICKED = "picked"
    LABEL = "label"
    LABEL_WEIGHT = "label_weight"
    CLASS_WEIGHT = "class_weight"
    IS_CLASS = "is_class"
    N_CLASSES = "n_classes"
    IGNORE_INDEX = "ignore_index"
    TARGET_LOGIT = "target_logit"
    TARGET_LOG_PROB = "target_log_prob"
    EXPECTED_LOG_PROB = "expected_log_prob"
    SHIFTED_SUM = "shifted_sum"
    WEIGHT_SUM = "weight_sum"
    WEIGHTED_SUM = "weighted_sum"
    TOTAL_WEIGHT = "total_weight"
    TOTAL = "total"
    LOSS = "loss"
    COUNTS = "counts"
    N_COUNTED = "n_counted"
    IS_IGNORED = "is_ignored"
    PROBABILITY = "probability"
    IS_TARGET = "is_target"
    EXCESS = "excess"

    # Norms and their statistics.
    MEAN = "mean"
    MEAN_SQUARE = "mean_square"
    VARIANCE = "variance"
    RSTD = "rstd"
    EPS = "eps"
    MOMENTUM = "momentum"
    CENTERED = "centered"
    NORMALIZED = "normalized"
    D_NORMALIZED = "d_normalized"
    SQUARES = "squares"
    SUM_OF_SQUARES = "sum_of_squares"
    THROUGH_MEAN = "through_mean"
    THROUGH_RSTD = "through_rstd"
    THROUGH_LENGTH = "through_length"
    LESS_MEAN = "less_mean"
    SCALE = "scale"
    SLOPE = "slope"
    OFFSET = "offset"
    CHANNEL_GRADIENTS = "channel_gradients"
    CHANNEL_PROJECTIONS = "channel_projections"
    GROUP_GRADIENTS = "group_gradients"
    GROUP_PROJECTIONS = "group_projections"
    RUNNING_MEAN = "running_mean"
    RUNNING_VAR = "running_var"
    PIECE_SIZE = "piece_size"
    APART = "apart"
    SQUARES_AROUND = "squares_around"
    TOTAL_SQUARES = "total_squares"
    COUNT = "count"
    N_AVERAGED = "n_averaged"

    # Activations.
    CUBIC = "cubic"
    D_CUBIC = "d_cubic"
    CUMULATIVE = "cumulative"
    DENSITY = "density"
    SIGMOID = "sigmoid"
    SQRT_HALF = "sqrt_half"
    ONE_OVER_SQRT_TWO_PI = "one_over_sqrt_two_pi"
    TWO_SQRT_2_OVER_PI = "two_sqrt_2_over_pi"

    # Windows.
    IS_INSIDE = "is_inside"
    DEPTH = "depth"
    HEIGHT = "height"
    WIDTH = "width"
    PADDED_DEPTH = "padded_depth"
    PADDED_HEIGHT = "padded_height"
    PADDED_WIDTH = "padded_width"
    N_SLICES_INSIDE = "n_slices_inside"
    N_LINES_INSIDE = "n_lines_inside"
    N_COLUMNS_INSIDE = "n_columns_inside"
    WINDOW_MAX = "window_max"
    WINDOW_SUM = "window_sum"
    DIVISOR = "divisor"

    # Positions: tables, joined and padded dimensions.
    PLACE = "place"
    HAS_PLACE = "has_place"
    HERE = "here"
    IN_TABLE = "in_table"
    IS_NOT_PADDING = "is_not_padding"
    TABLE_SIZE = "table_size"
    HALF = "half"
    BOUNDARY = "boundary"
    IN_FIRST_HALF = "in_first_half"
    IN_HALF = "in_half"
    FIRST_HALF = "first_half"
    SECOND_HALF = "second_half"
    LEFT = "left"
    RIGHT = "right"
    IS_FILLED = "is_filled"
    FILLED_START = "filled_start"
    FILLED_END = "filled_end"
    N_FILLED = "n_filled"
    PADDING = "padding"
    LAST = "last"
    LENGTH = "length"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def stays_apart(self) -> bool:
        """Whether an equal number of another role is another number: the sides of an image, eps and momentum."""
        return self in _NUMBERS_APART


_NUMBERS_APART = frozenset(
    {
        Role.EPS,
        Role.MOMENTUM,
        Role.DEPTH,
        Role.HEIGHT,
        Role.WIDTH,
        Role.PADDED_DEPTH,
        Role.PADDED_HEIGHT,
        Role.PADDED_WIDTH,
    }
)
