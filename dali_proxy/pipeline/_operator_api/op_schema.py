"""`OpSchema`: the declaration of an operator with the methods of NVIDIA DALI's ``backend.OpSchema``."""

from __future__ import annotations

from dali_proxy.pipeline._declaration.names import class_name, schema_name
from dali_proxy.pipeline._declaration.registry import all_schemas
from dali_proxy.pipeline._declaration.schema import COMMON_ARGUMENTS, REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._operator_api.op_spec import OpSpec
from dali_proxy.pipeline.errors import UnknownArgumentError
from dali_proxy.pipeline.types import DALIDataType

_MANY_INPUTS = 256

_TYPES = {
    Kind.BOOL: DALIDataType.BOOL,
    Kind.INT: DALIDataType.INT32,
    Kind.FLOAT: DALIDataType.FLOAT,
    Kind.STRING: DALIDataType.STRING,
    Kind.INTS: DALIDataType._INT32_VEC,
    Kind.FLOATS: DALIDataType._FLOAT_VEC,
    Kind.STRINGS: DALIDataType._STRING_VEC,
    Kind.DTYPE: DALIDataType.DATA_TYPE,
    Kind.IMAGE_TYPE: DALIDataType.IMAGE_TYPE,
    Kind.INTERP: DALIDataType.INTERP_TYPE,
    Kind.LAYOUT: DALIDataType.TENSOR_LAYOUT,
    Kind.OBJECT: DALIDataType.PYTHON_OBJECT,
}


def find_schema(name: str) -> OpSchema | None:
    """Return the declaration of an operator by its name in DALI, such as "readers__File"; None if there is none."""
    found = next((schema for schema in all_schemas() if schema_name(schema.name) == name), None)
    return None if found is None else OpSchema(found)


class OpSchema:
    """The declaration of an operator.

    Args:
        schema: the declaration in this package's form.

    Example:
        >>> from dali_proxy import ops
        >>> ops.Resize(size=(2, 2)).schema.GetSupportedBackends()
        ['cpu', 'gpu']
    """

    def __init__(self, schema: OperatorSchema) -> None:
        self._schema = schema

    def __repr__(self) -> str:
        return f"<OpSchema of {self.Name()}>"

    # Names and documentation --------------------------------------------------------------------------------------

    def Name(self) -> str:
        """Return the operator's name in DALI, such as "readers__File"."""
        return schema_name(self._schema.name)

    def OperatorName(self) -> str:
        """Return the name without modules, such as "File"."""
        return class_name(self._schema.name)

    def ModulePath(self) -> list[str]:
        """Return the modules below `fn` that contain the operator, from the outside in."""
        return self._schema.name.split(".")[:-1]

    def AliasFor(self) -> str:
        """Return an empty string: deprecated names are operators with `DeprecatedInFavorOf`."""
        return ""

    def Dox(self) -> str:
        """Return the documentation."""
        return self._schema.doc

    def IsDeprecated(self) -> bool:
        """Return whether this is a deprecated name of another operator."""
        return self._schema.alias_of is not None

    def DeprecatedInFavorOf(self) -> str:
        """Return the name to use instead of a deprecated one, or an empty string."""
        return schema_name(self._schema.alias_of) if self._schema.alias_of else ""

    def DeprecatedInVersion(self) -> str:
        """Return an empty string: this project records no versions."""
        return ""

    def DeprecationMessage(self) -> str:
        """Return an empty string: there is nothing to add to `DeprecatedInFavorOf`."""
        return ""

    def IsAbstract(self) -> bool:
        """Return False: all declared operators can be used."""
        return False

    def IsInternal(self) -> bool:
        """Return whether the operator is internal, without a function in `fn`."""
        return self._schema.hidden

    def IsDocHidden(self) -> bool:
        """Return whether the operator is omitted from the documentation."""
        return self._schema.hidden

    def IsDocPartiallyHidden(self) -> bool:
        """Return whether only the name is documented, as for deprecated names."""
        return self.IsDeprecated()

    # Behaviour ----------------------------------------------------------------------------------------------------

    def GetSupportedBackends(self) -> list[str]:
        """Return the devices: "cpu", "mixed", "gpu"."""
        return list(self._schema.devices)

    def IsNoPrune(self) -> bool:
        """Return whether the operator runs even if no output needs it."""
        return self._schema.side_effects

    def IsStateful(self) -> bool:
        """Return whether equal inputs can have different results: random numbers, readers, sources, user code."""
        return self._schema.stateful

    def HasRandomSeedArg(self) -> bool:
        """Return whether the argument `seed` changes the results."""
        return self._schema.random or self._schema.is_reader

    def HasRandomStateArg(self) -> bool:
        """Return False: states of random numbers can't be passed."""
        return False

    def AllowsSequences(self) -> bool:
        """Return whether the operator accepts sequences of frames as samples."""
        return bool(self._schema.inputs)

    def IsSequenceOperator(self) -> bool:
        """Return False: no operator requires sequences."""
        return False

    # Inputs and outputs -------------------------------------------------------------------------------------------

    def MinNumInput(self) -> int:
        """Return the smallest number of inputs."""
        return sum(not declared.optional for declared in self._schema.inputs)

    def MaxNumInput(self) -> int:
        """Return the largest number of inputs."""
        return _MANY_INPUTS if self._schema.variadic else len(self._schema.inputs)

    def HasInputDox(self) -> bool:
        """Return whether inputs are documented."""
        return bool(self._schema.inputs)

    def GetInputName(self, index: int) -> str:
        """Return the name of an input."""
        return self._schema.inputs[min(index, len(self._schema.inputs) - 1)].name

    def GetInputDox(self, index: int) -> str:
        """Return the documentation of an input."""
        return self._schema.inputs[min(index, len(self._schema.inputs) - 1)].doc

    def GetInputType(self, index: int) -> str:
        """Return the type of an input: "TensorList"."""
        return "TensorList"

    def GetInputDevice(
        self, index: int, actual_device: str | None = None, operator_device: str | None = None
    ) -> str | None:
        """Return the device on which an operator reads an input; None if that isn't known.

        Args:
            index: number of the input.
            actual_device: device of the data, or None.
            operator_device: device of the operator, or None.
        """
        declared = self._schema.inputs[min(index, len(self._schema.inputs) - 1)]
        if declared.any_device and not (index and operator_device == "cpu"):
            return actual_device or operator_device
        return "cpu" if operator_device == "mixed" else operator_device

    def HasOutputFn(self) -> bool:
        """Return whether the number of outputs depends on the arguments."""
        return callable(self._schema.outputs)

    def CalculateOutputs(self, spec: OpSpec) -> int:
        """Return the number of outputs of a call."""
        return self._schema.output_count(spec.arguments, spec.NumRegularInput())

    def CalculateAdditionalOutputs(self, spec: OpSpec) -> int:
        """Return 0: `CalculateOutputs` includes all outputs."""
        return 0

    # Arguments ----------------------------------------------------------------------------------------------------

    def HasArgument(self, name: str) -> bool:
        """Return whether the operator has an argument."""
        return self._schema.argument(name) is not None

    def GetArgumentNames(self, include_hidden: bool = False) -> list[str]:
        """Return the names of the arguments, sorted."""
        return sorted(argument.name for argument in (*self._schema.arguments, *COMMON_ARGUMENTS))

    def GetArgumentDox(self, name: str) -> str:
        """Return the documentation of an argument."""
        return self._argument(name).doc

    def GetArgumentType(self, name: str) -> DALIDataType:
        """Return the type of an argument."""
        return _TYPES[self._argument(name).kind]

    def IsArgumentOptional(self, name: str) -> bool:
        """Return whether callers may omit an argument."""
        return self._argument(name).default is not REQUIRED

    def HasArgumentDefaultValue(self, name: str) -> bool:
        """Return whether an argument has a default value other than None."""
        return self._argument(name).default not in (REQUIRED, None)

    def GetArgumentDefaultValueString(self, name: str) -> str:
        """Return the default value of an argument as text."""
        return repr(self._argument(name).default)

    def IsTensorArgument(self, name: str) -> bool:
        """Return whether an argument accepts a batch with one value per sample."""
        return self._argument(name).per_sample

    def ArgSupportsPerFrameInput(self, name: str) -> bool:
        """Return whether an argument may differ from frame to frame."""
        return self._argument(name).per_sample

    def IsDeprecatedArg(self, name: str) -> bool:
        """Return False: this project records no deprecated arguments."""
        return False

    def CheckArgs(self, spec: OpSpec) -> None:
        """Check the names and constant values of the arguments of a call.

        Raises:
            UnknownArgumentError: the operator doesn't have an argument.
            ArgumentMismatchError, ArgumentValueError: a value doesn't fit.
        """
        for name, value in spec.arguments.items():
            if name not in ("device", "name"):
                self._argument(name).check(value)

    def _argument(self, name: str) -> Argument:
        argument = self._schema.argument(name)
        if argument is None:
            raise UnknownArgumentError(f'Argument "{name}" is not defined for operator "{self.Name()}".')
        return argument
